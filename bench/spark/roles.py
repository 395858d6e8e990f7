"""The processes that take part in a write, by what they do in it."""

import os
from collections.abc import Iterator
from pathlib import Path

from twophase.verify.processes import descendants

WORKER, BROKER, JVM, DRIVER = "Python workers", "broker", "Spark's JVM", "driver"
# What a command line holds.
_MARKS = {
    b"pyspark.daemon": WORKER,
    b"kafka.Kafka": BROKER,
    b"org.apache.spark.deploy.SparkSubmit": JVM,
}


def roles() -> Iterator[tuple[str, Path]]:
    """Yield what each process is and where the system shows it; this one is the driver."""
    yield DRIVER, Path(f"/proc/{os.getpid()}")
    for each in descendants(os.getpid()):
        folder = Path(f"/proc/{each.pid}")
        command = (folder / "cmdline").read_bytes()
        for mark, role in _MARKS.items():
            if mark in command:
                yield role, folder
