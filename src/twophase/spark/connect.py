"""What Spark Connect does not tell: whose batch a call is for, and what the checkpoint holds.

Over Connect Spark pickles the sink to the server, which calls it in a Python process of its own for
each run of the query. There is no JVM to ask there, and no trace of the query: only a DataFrame and
a batch number. So the user names the query and its checkpoint, and files and settings are read by
Spark jobs and Spark's own configuration.
"""

import re
from typing import Any, Final

from pyspark.sql import functions as sql

from twophase.commit.naming import check_name
from twophase.errors import ConfigurationError

# What a path means to Spark's readers beyond its letters.
_GLOB: Final = re.compile(r"([\\*?\[\]{}^,])")
_SLOTS_MAX: Final = 4096


def over_connect(session: Any) -> bool:
    """Whether the session is a client of Spark Connect, which has no JVM to be asked."""
    return not hasattr(session, "_jvm")


def checked_owner(owner: str | None) -> str | None:
    """Return the name that a user gives a query, or say what a name is."""
    if owner is not None:
        check_name("owner", owner)
    return owner


def named_query(owner: str | None, checkpoint: str | None) -> tuple[str, str]:
    """Return what the user calls the query and where its checkpoint lies, or say what is missing.

    Without the owner no marker could be told from another query's, and without the checkpoint a
    batch that is asked for again could not be told from a new one under its number.
    """
    if owner is not None and checkpoint is not None:
        return owner, checkpoint
    given = {"owner": owner, "checkpoint": checkpoint}
    missing = " and ".join(name for name, value in given.items() if value is None)
    raise ConfigurationError(
        f"{missing} must be given to the sink: over Spark Connect it cannot see which query calls "
        'it; give owner="<a name for the query, for ever; its id if it ran in classic mode '
        'before>" and checkpoint="<the query\'s checkpointLocation>"'
    )


def read_file(session: Any, path: str) -> bytes:
    """Return a file's bytes, read by a Spark job with the user's credentials for it."""
    reader = session.read.format("binaryFile")
    try:
        rows = reader.load(_GLOB.sub(r"\\\1", path)).select("content").collect()
    except Exception as error:
        said = str(error).split("\n")[0]
        if "PATH_NOT_FOUND" not in said:
            raise
        raise ConfigurationError(
            f"{path} cannot be read ({said}); checkpoint must be the query's own checkpointLocation"
        ) from error
    if len(rows) != 1:
        raise ConfigurationError(
            f"{path} is {len(rows)} files to Spark; checkpoint must be the query's own "
            "checkpointLocation, and spark.sql.files.ignoreMissingFiles and ignoreCorruptFiles off"
        )
    return bytes(rows[0].content)


def slots(session: Any) -> int:
    """Return how many tasks run side by side, as `sparkContext.defaultParallelism` has it.

    A Connect client cannot ask for it. Where the setting is not given, a range has as many
    partitions: a job of one stage and no data, for each batch, since a cluster may grow.
    """
    if not over_connect(session):
        return int(session.sparkContext.defaultParallelism)
    setting = session.conf.get("spark.default.parallelism", None)
    if setting is not None:
        return int(setting)
    places = session.range(_SLOTS_MAX).select(sql.spark_partition_id()).toArrow().column(0)
    return 1 + int(max(places.to_pylist()))
