"""What a sink needs on this machine: Java, Spark, and Spark's Kafka connector for the source."""

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from twophase.embedded import jarset
from twophase.embedded.cache import home
from twophase.embedded.java import find_java
from twophase.errors import SetupError
from twophase.kafka.findings import Finding, error, ok, unknown, warning

# As in pyproject.toml.
_SPARK_MAJOR = 4
# As configure_spark adds it; not imported, because that would import Spark's half.
_CONNECTOR = "spark-kafka-4.2.0"


def machine_findings() -> Iterator[Finding]:
    """Yield what is found here; a cluster's own Java and Spark are not seen from here."""
    try:
        yield ok("java", f"{find_java()}")
    except SetupError as failure:
        yield warning(
            "java", failure.message, "a Spark driver on this machine needs it", "see the message"
        )
    yield spark_finding()
    missing = jarset.load(_CONNECTOR).missing_from(home() / "jars" / _CONNECTOR).jars
    if missing:
        yield unknown(
            "connector",
            f"{_CONNECTOR} was not fetched here; the sink itself needs no jar",
            "for a Kafka source: twophase.configure_spark fetches it, or --packages names it",
        )
    else:
        yield ok("connector", f"{_CONNECTOR} is here (for a Kafka source)")


def spark_finding(package: str = "pyspark") -> Finding:
    """Return whether Spark is here, in a version that was tested."""
    try:
        found = version(package)
    except PackageNotFoundError:
        return unknown(
            "spark", "pyspark is not installed here", "look on the machine that runs the driver"
        )
    if int(found.split(".")[0]) != _SPARK_MAJOR:
        return error(
            "spark",
            f"pyspark {found}",
            "the sink is built on Spark 4",
            f"install pyspark {_SPARK_MAJOR}.0 or newer, below {_SPARK_MAJOR + 1}",
        )
    return ok("spark", f"pyspark {found}")
