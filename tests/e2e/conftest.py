"""One Spark session for the tests that run in this process."""

import pytest
from pyspark.sql import SparkSession

from twophase import configure_spark


@pytest.fixture(scope="session")
def spark():
    """A local session with the Kafka source and two cores."""
    session = configure_spark(
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        # Short runs on few cores: compiling and collecting in parallel costs more than it brings.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    ).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
