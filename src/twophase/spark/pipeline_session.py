"""The Spark session of a pipeline: its settings, its log, and its secrets out of sight."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from twophase.errors import SetupError, StoreUnavailable
from twophase.spark.session import REDACTED, configure_spark

_DEFAULTS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.redaction.regex": REDACTED,
    "spark.sql.redaction.options.regex": f"{REDACTED}|url",
}
_HIDING: Final = ("spark.redaction.regex", "spark.sql.redaction.options.regex")
# What they log is an error that is raised as well, with all of Java's stack.
_LOGGERS: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


def start_session(
    name: str,
    master: str,
    conf: Mapping[str, str],
    *,
    secret: Iterable[str] = (),
    modules: Iterable[Path] = (),
    log: IO[bytes] | None = None,
) -> SparkSession:
    """Return a session with these settings.

    `secret` are names of settings that nobody may see, `modules` the user's own files for the
    executors. What Spark's JVM says goes to `log`, by default to stderr.
    """
    builder: Any = SparkSession.builder.appName(name).master(master)
    for key, value in {**_DEFAULTS, **conf, **_hiding(conf)}.items():
        builder = builder.config(key, value)
    builder = configure_spark(builder)
    if SparkContext._gateway is None:  # noqa: SLF001
        _start_jvm(builder._options, set(secret), log)  # noqa: SLF001
    try:
        session: SparkSession = builder.getOrCreate()
    except Exception as error:  # noqa: BLE001 - Java's errors come as many classes
        raise StoreUnavailable(
            f"no Spark session on master {master}: {_first_line(error)}"
        ) from None
    for logger in _LOGGERS:
        PySparkLogger.getLogger(logger).disabled = True
    for module in modules:
        session.sparkContext.addPyFile(str(module))
    return session


def _hiding(conf: Mapping[str, str]) -> dict[str, str]:
    """Return what Spark hides: what has to be, and beside it what the user says."""
    given = {key: conf.get(key, "").strip() for key in _HIDING}
    return {key: "|".join(filter(None, (_DEFAULTS[key], more))) for key, more in given.items()}


def _start_jvm(options: Mapping[str, object], secret: set[str], log: IO[bytes] | None) -> None:
    """Start the driver's JVM without secrets in its command line, which all users can read."""
    told = SparkConf(loadDefaults=False)
    for key, value in options.items():
        if key not in secret:
            told.set(key, str(value))
    output = {} if log is None else {"stdout": log, "stderr": log}
    try:
        gateway = launch_gateway(told, output)  # type: ignore[no-untyped-call]
    except PySparkRuntimeError as error:
        raise SetupError(
            "Spark's JVM did not start; is there Java 17 or newer (java -version), and are the "
            "settings of spark.conf right?"
        ) from error
    SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001


def _first_line(error: Exception) -> str:
    """Return what Java said first; a stack is of no use to whoever wrote the file."""
    java = getattr(error, "java_exception", None)
    said = str(java.toString() if java is not None else error).strip()
    return said.splitlines()[0] if said else type(error).__name__
