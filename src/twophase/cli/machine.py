"""What a sink needs on this machine: Java, Spark, and Spark's Kafka connector for the source."""

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from twophase.embedded import jarset
from twophase.embedded.cache import home
from twophase.embedded.connector import (
    ARTIFACT,
    among_own_jars,
    connector_set,
    line_of,
    no_connector,
)
from twophase.embedded.java import find_java, java_version, major_of
from twophase.errors import SetupError
from twophase.kafka.findings import Finding, error, ok, unknown, warning

# As in pyproject.toml.
_SPARK_MAJOR = 4
# Which Java each Spark runs on, by Spark's own documentation.
_JAVA_OF: Final[dict[tuple[int, ...], tuple[int, ...]]] = {
    (4, 0): (17, 21),
    (4, 1): (17, 21),
    (4, 2): (17, 21, 25),
}


def machine_findings() -> Iterator[Finding]:
    """Yield what is found here; a cluster's own Java and Spark are not seen from here."""
    spark = spark_version()
    yield java_finding(spark)
    yield spark_finding(spark)
    yield connector_finding(spark, connectors(spark))


def spark_version() -> str | None:
    """Return which PySpark is installed here, if any."""
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return None


def java_finding(spark: str | None) -> Finding:
    """Return whether Java is here, in a version that this Spark runs on."""
    try:
        java = find_java()
    except SetupError as failure:
        return warning(
            "java", failure.message, "a Spark driver on this machine needs it", "see the message"
        )
    found = java_version(java)
    if found is None:
        return unknown("java", f"{java} does not tell its version", "look what it is")
    said = f"{found} ({java})"
    wanted = _JAVA_OF.get(line_of(spark)) if spark else None
    if wanted is None:
        return ok("java", said) if spark is None else _untold(said, spark)
    if major_of(found) in wanted:
        return ok("java", said)
    allowed = " or ".join(map(str, wanted))
    return warning(
        "java",
        f"{said}, beside pyspark {spark}",
        f"Spark {'.'.join(map(str, line_of(spark or '')))} is made for Java {allowed}",
        f"set JAVA_HOME to a Java {allowed}",
    )


def _untold(said: str, spark: str) -> Finding:
    return unknown(
        "java",
        f"{said}; which Java pyspark {spark} needs is not known here",
        "look into that Spark's documentation",
    )


def spark_finding(found: str | None) -> Finding:
    """Return whether Spark is here, in a version that the sink is built on."""
    if found is None:
        return unknown(
            "spark", "pyspark is not installed here", "look on the machine that runs the driver"
        )
    if line_of(found)[0] != _SPARK_MAJOR:
        return error(
            "spark",
            f"pyspark {found}",
            "the sink is built on Spark 4",
            f"install pyspark {_SPARK_MAJOR}.0 or newer, below {_SPARK_MAJOR + 1}",
        )
    return ok("spark", f"pyspark {found}")


def connectors(spark: str | None) -> dict[str, str]:
    """Return the connectors that a session on this machine may get: where, and their versions."""
    name = connector_set(spark or "")
    found = {}
    if name is not None:
        wanted = jarset.load(name)
        if not wanted.missing_from(home() / "jars" / name).jars:
            found["fetched by twophase.configure_spark"] = next(
                jar.version for jar in wanted.jars if jar.artifact == ARTIFACT
            )
    for number in among_own_jars():
        found["among pyspark's own jars"] = number
    return found


def connector_finding(spark: str | None, found: dict[str, str]) -> Finding:
    """Return whether the connector is that of this Spark: each is built for one release line."""
    if not found:
        return _no_connector(spark)
    said = "; ".join(f"{ARTIFACT} {number} ({where})" for where, number in found.items())
    if spark is None:
        return unknown("connector", f"{said}; with which Spark is not known", "install pyspark")
    if any(line_of(number) != line_of(spark) for number in found.values()):
        return warning(
            "connector",
            f"{said}, beside pyspark {spark}",
            "a Kafka source may fail with a class or a method that is not there",
            f"for a Kafka source: put {ARTIFACT} {spark} in its place, or take it away and let "
            "twophase.configure_spark fetch one that fits",
        )
    return ok("connector", f"{said}, for a Kafka source")


def _no_connector(spark: str | None) -> Finding:
    name = connector_set(spark or "")
    if spark is None:
        said = "none is here, as there is no pyspark; the sink itself needs no jar"
        return unknown("connector", said, "install pyspark")
    if name is None:
        return unknown("connector", no_connector(spark), "see the message")
    return unknown(
        "connector",
        f"{name} was not fetched here; the sink itself needs no jar",
        "for a Kafka source: twophase.configure_spark fetches it, or --packages names it",
    )
