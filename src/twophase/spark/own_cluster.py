"""Spark's processes of a verification, kept to this machine and to a folder.

With a local-cluster master Spark starts a master and workers that listen on the machine's own
address and run what anybody sends them, and whose executors' files go into Spark's installation,
which may be nobody's to write, and stay there.
"""

import os
from pathlib import Path
from typing import Final

from pyspark.find_spark_home import _find_spark_home

_HOME: Final = "SPARK_HOME"
_ADDRESS: Final = "SPARK_LOCAL_IP"
_WRITTEN: Final = "work"


def keep_here(master: str, folder: Path) -> None:
    """Let a local master listen on loopback and write below the folder; before Spark's JVM starts.

    An address that the user chose is kept.
    """
    if not master.startswith("local"):
        return
    os.environ.setdefault(_ADDRESS, "127.0.0.1")
    if master.startswith("local-cluster["):
        # Workers write below Spark's home, and nothing else tells them where.
        os.environ[_HOME] = str(_linked(Path(_find_spark_home()), folder / "spark"))


def _linked(home: Path, made: Path) -> Path:
    """Return a folder with all that is in another, but for what is written there."""
    made.mkdir(parents=True, exist_ok=True)
    for part in home.iterdir():
        link = made / part.name
        if part.name != _WRITTEN and not link.is_symlink():
            link.symlink_to(part)
    return made
