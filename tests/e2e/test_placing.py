"""Each routed partition has a Spark partition of its own, in every version of Spark."""

import pytest
from pyspark.sql import functions as sql

from twophase.spark.placing import landing_numbers, placed


def places(frame):
    """Return the Spark partitions of each index."""
    found = {}
    for row in frame.select("routed", sql.spark_partition_id().alias("at")).distinct().collect():
        found.setdefault(row.routed, set()).add(row["at"])
    return found


def indexes(spark, count):
    return spark.range(10 * count, numPartitions=4).selectExpr(f"CAST(id % {count} AS INT) routed")


@pytest.mark.parametrize("count", [1, 2, 3, 16])
def test_each_index_lies_alone(spark, count):
    """Index n in Spark partition n, also where adaptive execution would merge small partitions."""
    found = places(placed(indexes(spark, count), "routed", count))
    assert found == {index: {index} for index in range(count)}


def test_hashed_as_they_are_they_would_share(spark):
    """The damage: some partitions hold two indexes, and others none."""
    found = places(indexes(spark, 16).repartition(16, "routed"))
    assert all(len(at) == 1 for at in found.values())
    assert len(set.union(*found.values())) < 16


def test_the_numbers_land_where_spark_says(spark):
    """Spark's own hash of each number, for many partitions."""
    numbers = spark.createDataFrame([(n,) for n in landing_numbers(1000)], "n int")
    landed = [row.at for row in numbers.selectExpr("pmod(hash(n), 1000) AS at").collect()]
    assert landed == list(range(1000))
