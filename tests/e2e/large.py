"""One batch that is larger than the driver, in a program of its own.

Arguments, as JSON: servers, topic, folder, path, master, rows, row_bytes. It prints what the sink
said was written, the most memory that this process had, and the driver's heap.
"""

import json
import os
import resource
import sys

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from twophase import configure_spark
from twophase.spark.kafka_sink import KafkaSink


class Noise:
    """Numbers to rows that no compression makes smaller, each beginning with its number."""

    def __init__(self, row_bytes):
        self.row_bytes = row_bytes

    def __call__(self, batches):
        for batch in batches:
            rows = np.frombuffer(os.urandom(len(batch) * self.row_bytes), np.uint8)
            rows = rows.reshape(len(batch), self.row_bytes).copy()
            rows[:, :8] = batch.column(0).to_numpy().astype("<i8").view(np.uint8).reshape(-1, 8)
            values = pa.FixedSizeBinaryArray.from_buffers(
                pa.binary(self.row_bytes), len(batch), [None, pa.py_buffer(rows)]
            )
            yield pa.RecordBatch.from_arrays([values.cast(pa.binary())], ["value"])


def main(arguments):
    """Write the batch."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.executor.memory": "1536m",
        "spark.local.dir": f"{arguments['folder']}/local",
    }
    builder = SparkSession.builder.master(arguments["master"])
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = configure_spark(builder).getOrCreate()
    sink = KafkaSink(
        sink_id=f"large-{arguments['topic']}",
        topic=arguments["topic"],
        options={
            "kafka.bootstrap.servers": arguments["servers"],
            "kafka.compression.type": "none",
            "kafka.transaction.timeout.ms": 600_000,
        },
        path=arguments["path"],
    )
    frame = spark.range(arguments["rows"], numPartitions=8)
    frame = frame.mapInArrow(Noise(arguments["row_bytes"]), "value binary")
    written = sink.write(frame, run_id="large")
    sink.close()
    said = {
        "rows": written.rows,
        "bytes": written.bytes,
        "resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "heap_bytes": spark._jvm.java.lang.Runtime.getRuntime().maxMemory(),
    }
    spark.stop()
    print(json.dumps(said))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
