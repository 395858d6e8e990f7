"""A Spark session that can read from Kafka and whose workers run this Python."""

import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyspark

from twophase.embedded.connector import connector_set, is_given, no_connector
from twophase.embedded.fetch import fetch_jars
from twophase.errors import SetupError
from twophase.options import HIDDEN_NAMES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JARS = "spark.jars"
_INTERPRETER = "spark.pyspark.python"
_INTERPRETER_VARIABLE = "PYSPARK_PYTHON"
_MASTER = "spark.master"
# Not local-cluster, which has executors in JVMs of their own.
IN_ONE_JVM = re.compile(r"local(\[|$)")
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
# Since Spark 4.1. Over loopback TCP every task of a Python worker waits for a delayed
# acknowledgement, some 40 ms on Linux.
_UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"

_REDACTION = "spark.redaction.regex"
# Spark's own default, and what it does not know: Kafka's login modules and inline private keys,
# which its own Kafka writer would show in the event log.
REDACTED: Final = f"(?i){HIDDEN_NAMES}|jaas|keystore"


def connector_jars(settings: Mapping[str, object]) -> tuple[Path, ...]:
    """Return the jars that this Spark needs to read from Kafka, fetched; none where it has them.

    Raises where none is known to fit: a connector of another line fails in the middle of a query.
    """
    if is_given(settings):
        return ()
    wanted = connector_set(pyspark.__version__)
    if wanted is None:
        raise SetupError(no_connector(pyspark.__version__))
    return fetch_jars(wanted)


def configure_spark(
    builder: "SparkSession.Builder", *, extra_jars: Iterable[str | Path] = ()
) -> "SparkSession.Builder":
    """Add Spark's Kafka connector and this interpreter to a session's builder, and return it.

    The connector is that of the PySpark which runs here. Jars that the builder names already are
    kept, a connector among them instead of ours, and so is an interpreter that the user chose.
    Call it before the process has a session: a running JVM takes no new class path.

    With a local master, Python workers are spoken to over Unix sockets, unless the user chose. On a
    cluster that is the user's to set, since the path of a temporary folder may be too long there.

    Spark hides Kafka's login modules and inline keys in plans and logs, unless the user chose what
    it hides (`spark.redaction.regex`).
    """
    options: dict[str, object] = getattr(builder, "_options", {})
    named = [jar for jar in str(options.get(_JARS) or "").split(",") if jar]
    wanted = [str(jar) for jar in (*connector_jars(options), *extra_jars)]
    if jars := ",".join(dict.fromkeys([*named, *wanted])):
        builder = builder.config(_JARS, jars)
    chosen = options.get(_INTERPRETER) or os.environ.get(_INTERPRETER_VARIABLE) or sys.executable
    # PySpark reads the variable, spark-submit the setting: workers need them to agree.
    os.environ.setdefault(_INTERPRETER_VARIABLE, str(chosen))
    # A temporary folder of the user's own may have too long a path for a socket.
    chose = _UNIX_SOCKETS in options or "java.io.tmpdir" in str(options.get(_JAVA_OPTIONS, ""))
    if IN_ONE_JVM.match(str(options.get(_MASTER, ""))) and not chose:
        builder = builder.config(_UNIX_SOCKETS, "true")
    if _REDACTION not in options:
        builder = builder.config(_REDACTION, REDACTED)
    return builder.config(_INTERPRETER, str(chosen))
