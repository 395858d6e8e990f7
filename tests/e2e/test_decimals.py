"""Decimals that cross to the Python workers as whole numbers are the same ones there."""

import pyarrow as pa
import pytest
from pyspark.sql import functions as sql

from twophase.spark.decimals import as_whole
from twophase.spark.row_tasks import RowRunner

TELLS = pa.schema([("n", pa.int64()), ("types", pa.string()), ("rows", pa.string())])
VALUES = """
VALUES (CAST(1.23 AS decimal(12, 2)), CAST(-1 AS decimal(18, 0)), CAST(0 AS decimal(18, 18)),
    CAST(7.5 AS decimal(38, 10)), 'x'), (NULL, NULL, NULL, NULL, NULL),
  (-9999999999.99, 999999999999999999, -0.999999999999999999, -2, 'y'), (0, 0, 1e-18, 0, '')
AS rows(euros, pieces, share, large, text)
"""


def tell(batches):
    """What reaches a task, as text."""
    for batch in batches:
        told = {"n": 1, "types": str(batch.schema.types), "rows": str(batch.to_pylist())}
        yield pa.RecordBatch.from_pylist([told], TELLS)


@pytest.mark.parametrize("light", [True, False])
def test_the_same_decimals(spark, light):
    """Types, values and nulls are those of the frame, whether rows are weighed or not."""
    frame = spark.sql(f"SELECT * FROM {VALUES}").coalesce(1)
    expected = frame.toArrow()
    told = RowRunner(lambda _: light).run(frame, tell, TELLS)
    assert [each["types"] for each in told] == [str(expected.schema.types)]
    assert [each["rows"] for each in told] == [str(expected.to_pylist())]


def test_which_are_sent_so(spark):
    """Those that Spark itself keeps as a long; another frame is left as it is."""
    frame = spark.sql(f"SELECT * FROM {VALUES}")
    sent, _ = as_whole(frame)
    kinds = [field.dataType.simpleString() for field in sent.schema.fields]
    assert kinds == ["bigint", "bigint", "bigint", "decimal(38,10)", "string"]
    for other in (
        frame.select("large", "text"),
        frame.select("euros", sql.col("text").alias("EUROS")),
    ):
        assert as_whole(other)[0] is other
