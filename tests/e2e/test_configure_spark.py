"""configure_spark, by a real Spark against a real broker."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Folders of other PySparks, each made by: pip install --no-deps --target FOLDER pyspark==4.1.2
OTHERS = [path for path in os.environ.get("TWOPHASE_OTHER_PYSPARKS", "").split(os.pathsep) if path]
PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from twophase.spark.session import configure_spark

servers, topic = sys.argv[1:]
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = configure_spark(builder).getOrCreate()
options = {"kafka.bootstrap.servers": servers}
interpreter = udf(lambda _: sys.executable)
rows = spark.range(3).select(interpreter("id").alias("value"))
rows.write.format("kafka").options(**options).option("topic", topic).save()
read = spark.read.format("kafka").options(**options).option("subscribe", topic).load()
print(json.dumps([spark.version, *[row.value.decode() for row in read.collect()]]))
spark.stop()
"""


@pytest.mark.parametrize("folder", ["", *OTHERS], ids=lambda path: Path(path).name or "own")
def test_kafka_source_and_workers(kafka, make_topic, folder):
    """Spark reads what it wrote to Kafka, and its workers run the interpreter of the driver."""
    environment = {k: v for k, v in os.environ.items() if k != "PYSPARK_PYTHON"}
    paths = [folder, environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM, kafka.bootstrap_servers, make_topic(kafka)],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env=environment,
    )
    assert answer.returncode == 0, answer.stderr
    version, *rows = json.loads(answer.stdout.splitlines()[-1])
    assert rows == [sys.executable] * 3
    if folder:
        assert f"'{version}'" in Path(folder, "pyspark", "version.py").read_text()
