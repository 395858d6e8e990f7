"""A Spark session that can read from Kafka and whose workers run this Python."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from twophase.embedded.fetch import fetch_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTOR = "spark-kafka-4.2.0"
_JARS = "spark.jars"
_INTERPRETER = "spark.pyspark.python"
_INTERPRETER_VARIABLE = "PYSPARK_PYTHON"


def configure_spark(
    builder: "SparkSession.Builder", *, extra_jars: Iterable[str | Path] = ()
) -> "SparkSession.Builder":
    """Add Spark's Kafka connector and this interpreter to a session's builder, and return it.

    Jars that the builder names already are kept, and so is an interpreter that the user chose.
    Call it before the process has a session: a running JVM takes no new class path.
    """
    options: dict[str, object] = getattr(builder, "_options", {})
    named = [jar for jar in str(options.get(_JARS) or "").split(",") if jar]
    wanted = [str(jar) for jar in (*fetch_jars(CONNECTOR), *extra_jars)]
    builder = builder.config(_JARS, ",".join(dict.fromkeys([*named, *wanted])))
    chosen = options.get(_INTERPRETER) or os.environ.get(_INTERPRETER_VARIABLE) or sys.executable
    # PySpark reads the variable, spark-submit the setting: workers need them to agree.
    os.environ.setdefault(_INTERPRETER_VARIABLE, str(chosen))
    return builder.config(_INTERPRETER, str(chosen))
