"""Which jars let a PySpark read from Kafka: a committed list for each release line of Spark.

A connector calls what is private to Spark, so each belongs to one release line. The jars beside it
(Kafka's Java client, the token provider, a pool) are the same in all lists: they have been seen to
work with each.
"""

import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ARTIFACT: Final = "spark-sql-kafka-0-10_2.13"

SETS: Final[Mapping[tuple[int, ...], str]] = {
    (4, 0): "spark-kafka-4.0.3",
    (4, 1): "spark-kafka-4.1.2",
    (4, 2): "spark-kafka-4.2.0",
}
_SESSION_JARS: Final = ("spark.jars", "spark.jars.packages")


def line_of(number: str) -> tuple[int, ...]:
    """Return 4.2 of 4.2.0, and of 4.2.0.dev1."""
    return tuple(int(part) for part in number.split(".")[:2] if part.isdecimal())


def connector_set(spark: str) -> str | None:
    """Return the list of jars for a version of Spark; None where none is known to fit it."""
    return SETS.get(line_of(spark))


def among_own_jars() -> list[str]:
    """Return the versions of the connectors that lie in PySpark's own folder of jars."""
    spec = importlib.util.find_spec("pyspark")
    return [
        jar.stem.removeprefix(f"{ARTIFACT}-")
        for place in (spec.submodule_search_locations or () if spec else ())
        for jar in sorted(Path(place).glob(f"jars/{ARTIFACT}-*.jar"))
    ]


def is_given(settings: Mapping[str, object]) -> bool:
    """Whether a session with these settings has a connector of the user's."""
    named = " ".join(str(settings.get(name) or "") for name in _SESSION_JARS)
    return bool(re.search(r"\bspark-sql-kafka-0-10", named)) or bool(among_own_jars())


def no_connector(spark: str) -> str:
    """Return what to say to a Spark that no list is known to fit, and what to do."""
    lines = ", ".join(".".join(map(str, line)) for line in SETS)
    newest = ".".join(map(str, max(SETS)))
    return (
        f"pyspark {spark} is installed here, and which Kafka connector fits it this version of "
        f"twophase does not know (it does for {lines}); name one in Spark's settings, "
        f"spark.jars.packages=org.apache.spark:{ARTIFACT}:{spark}, or install pyspark {newest}"
    )
