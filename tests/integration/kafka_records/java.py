"""What the Java client says: Spark's Kafka source reads topics, Kafka's own Utils hashes keys."""

import json
import subprocess
import sys

import pyarrow as pa

_PROGRAM = """
import json, sys
import pyarrow as pa
from pyspark.sql import SparkSession
from twophase.spark.session import configure_spark

asked = json.load(sys.stdin)
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.session.timeZone", "UTC")
spark = configure_spark(builder).getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
if asked["topics"]:
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", asked["servers"])
    source = source.option("subscribe", ",".join(asked["topics"])).option("includeHeaders", "true")
    rows = source.option("kafka.check.crcs", "true").load()
    rows = rows.select("topic", "partition", "offset", "key", "value", "headers", "timestamp")
    table = rows.toArrow()
    with pa.OSFile(asked["file"], "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
murmur2 = spark._jvm.org.apache.kafka.common.utils.Utils.murmur2
print(json.dumps([murmur2(bytearray.fromhex(key)) for key in asked["keys"]]))
spark.stop()
"""


def ask_java(servers, topics, file, keys=()):
    """Return all rows of the topics as a table, and the Java client's hashes of the keys."""
    asked = {
        "servers": servers,
        "topics": list(topics),
        "file": str(file),
        "keys": [key.hex() for key in keys],
    }
    answer = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    hashes = json.loads(answer.stdout.splitlines()[-1])
    if not asked["topics"]:
        return None, hashes
    with pa.OSFile(str(file), "rb") as source:
        return pa.ipc.open_file(source).read_all(), hashes
