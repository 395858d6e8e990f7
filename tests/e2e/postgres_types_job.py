"""Spark's own JDBC writer and ours, one after the other, in a process with the driver's jar.

Arguments, as JSON: url, user, theirs and ours: the tables, beyond: the columns that Spark's writer
cannot write.
"""

import json
import sys

from pyspark.sql import SparkSession
from support import postgres_types

from twophase import PostgresSink, configure_spark
from twophase.embedded import fetch_jars

JDBC_JAR = "postgres-jdbc-42.7.7"


def main(url, user, theirs, ours, beyond):
    """Write the same rows to both tables."""
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    )
    spark = configure_spark(builder, extra_jars=fetch_jars(JDBC_JAR)).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    frame = postgres_types.frame(spark).drop(*beyond)
    options = {"driver": "org.postgresql.Driver", "user": user}
    address = f"jdbc:postgresql://{url.partition('@')[2]}"
    frame.write.mode("append").options(**options).jdbc(address, theirs)
    PostgresSink(url, ours, sink_id=ours).write(frame, run_id="once")


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
