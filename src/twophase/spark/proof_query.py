"""A Kafka -> Spark -> Kafka query in a process of its own, for verifications.

    python -m twophase.spark.proof_query '{"servers": ..., ...}'

The one argument is a `QuerySettings` as JSON; Kafka's options, which may hold secrets, come by the
environment. The same query writes through this package's sink or
through Spark's own. It runs until it is stopped, or ends by itself when the source is used up; it
ends with the process that started it.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import SparkSession

from twophase.kafka.code_options import refuse_code
from twophase.pipeline.source_options import SHARED
from twophase.spark.kafka_sink import KafkaSink
from twophase.spark.own_cluster import keep_here
from twophase.spark.session import configure_spark
from twophase.verify.driver import CONNECTION
from twophase.verify.history import HistoryFile
from twophase.verify.trial import SPARK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ORPHAN_CHECK_S: Final = 0.5
# A verification starts many short runs on few cores: less compiling, one collector.
_JAVA_OPTIONS: Final = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")
_QUICK_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass(frozen=True, slots=True)
class QuerySettings:
    """One query: where it reads and writes, by which sink, and how its session is made."""

    servers: str
    source: str
    target: str
    checkpoint: str
    sink: str
    sink_id: str
    history: str
    rows_per_batch: int
    until_used_up: bool = False
    master: str = "local[2]"
    conf: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


def start_query(settings: QuerySettings, history: HistoryFile) -> Any:
    """Start the query in a session of its own and return it."""
    builder = SparkSession.builder.appName(f"proof of {settings.sink}").master(settings.master)
    # A process that is killed cannot tidy up, so what it leaves behind is with the rest.
    scratch = Path(settings.checkpoint).with_name("scratch")
    scratch.mkdir(parents=True, exist_ok=True)
    keep_here(settings.master, scratch)
    java_options = f'{_QUICK_JVM} "-Djava.io.tmpdir={scratch}"'
    conf = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        # The checker needs every batch's plan.
        "spark.sql.streaming.minBatchesToRetain": "1000000",
        "spark.local.dir": str(scratch),
        # As on a cluster; and the path of a socket would be too long there.
        "spark.python.unix.domain.socket.enabled": "false",
        **dict.fromkeys(_JAVA_OPTIONS, java_options),
        **settings.conf,
    }
    for name in set(_JAVA_OPTIONS) & set(settings.conf):
        conf[name] = f"{java_options} {settings.conf[name]}"
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = configure_spark(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    rows = (
        spark.readStream.format("kafka")
        .options(**_connection(settings, SHARED))
        .option("subscribe", settings.source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", settings.rows_per_batch)
        .load()
        .select("key", "value")
    )
    writer = _writer(rows, settings, history)
    writer = writer.option("checkpointLocation", settings.checkpoint)
    if settings.until_used_up:
        writer = writer.trigger(availableNow=True)
    return writer.start()


def _writer(rows: "DataFrame", settings: QuerySettings, history: HistoryFile) -> Any:
    if settings.sink == SPARK:
        writer = rows.writeStream.format("kafka").option("topic", settings.target)
        return writer.options(**_connection(settings, SHARED))
    sink = KafkaSink(
        sink_id=settings.sink_id,
        topic=settings.target,
        options=_connection(settings),
        hooks=[history.batch_hook(settings.sink)],
        **settings.options,
    )
    return rows.writeStream.foreachBatch(sink)


def _connection(settings: QuerySettings, known: Collection[str] | None = None) -> dict[str, str]:
    """Return Kafka's options, or those of them that are known to Java's clients as well."""
    given = json.loads(os.environ.get(CONNECTION, "{}"))
    refuse_code(given)
    options = {**given, "kafka.bootstrap.servers": settings.servers}
    return {name: text for name, text in options.items() if known is None or name in known}


def end_with(parent: int) -> None:
    """End this process at once when the one that started it is gone."""
    while os.getppid() == parent:
        time.sleep(_ORPHAN_CHECK_S)
    os._exit(1)


def main(argument: str) -> None:
    """Run the query until it ends."""
    settings = QuerySettings(**json.loads(argument))
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    with HistoryFile(Path(settings.history)) as history:
        start_query(settings, history).awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1])
