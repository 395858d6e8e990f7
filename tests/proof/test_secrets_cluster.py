"""Secrets of a sink, a source and a database are found in nothing that a cluster's processes write.

On a real standalone cluster of two workers: what each executor of each application prints and logs,
Java and Python at DEBUG, and whatever else lies in the folders of the workers and of the master.
"""

import os

import pytest
from support.canaries import canary, found_in
from support.planting import (
    TAKES_TOKENS,
    Plant,
    addresses,
    drive,
    named_by,
    rows_to_copy,
    table_at,
    wrong_ways,
)
from support.secured import SuperUser

from twophase.embedded import EmbeddedKafka

from .cluster import SparkCluster

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
# What a Python worker does first; its log goes where its executor's goes.
CUSTOM = """\
import logging
import sys

logging.basicConfig(level=logging.DEBUG, stream=sys.stderr, force=True)
logging.getLogger("{shown}").debug("a worker's own log is here")
"""
# All of Spark and of Kafka's Java client; Netty would tell every byte that Spark sends.
LOG = """\
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n%ex
logger.kafka.name = org.apache.kafka
logger.kafka.level = debug
logger.spark.name = org.apache.spark
logger.spark.level = debug
"""


def settings(spark, folder, shown):
    """Return the settings of a session whose executors tell all that they can."""
    folder.mkdir()
    log = folder / "log4j2.properties"
    log.write_text(LOG)
    paths = filter(None, [os.environ.get("PYTHONPATH")])
    (folder / "sitecustomize.py").write_text(CUSTOM.format(shown=shown))
    return spark.settings()["conf"] | {
        "spark.master": spark.url,
        "spark.executor.extraJavaOptions": f"-Dlog4j2.configurationFile={log.as_uri()}",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join([str(folder), *paths]),
        # Shown by Spark, being no secret by its name.
        "spark.executorEnv.SHOWN": shown,
    }


@pytest.mark.parametrize("name", ["password", "certificate", "token"])
def test_no_secret_is_found_on_the_cluster(tmp_path, postgres_url, name):
    """Well and badly written, in batch scope and task scope, from Kafka and into PostgreSQL."""
    (tmp_path / "written").mkdir()
    plant, shown = Plant(tmp_path / "written"), canary("shown")
    users = {"etl": plant.secrets["sasl"]}
    with (
        EmbeddedKafka(users=users, properties=TAKES_TOKENS) as cluster,
        SparkCluster(plant.folder / "spark", workers=2) as spark,
    ):
        topics = rows_to_copy(SuperUser(cluster), partitions=2)
        options, source_options = named_by(name, cluster, plant)
        # Each attempt to write takes the time of four attempts of a task.
        wrong = wrong_ways(plant, options)
        wrong = {"wrong password": wrong["wrong password"], **dict(list(wrong.items())[1:3])}
        drive(
            *(plant, name, (options, source_options), topics),
            table=table_at(postgres_url),
            urls={"good": addresses(plant, postgres_url)["good"]},
            wrong=wrong,
            conf=settings(spark, tmp_path / "custom", shown),
            timeout_s=600,
        )
        assert spark.executors_started() == 2
    assert found_in(plant.folder, plant.secrets) == []
    # What is no secret is found where one would be, by Java, by Spark and by Python.
    said = [path for path in (plant.folder / "spark" / "work").rglob("std*") if path.is_file()]
    assert len(said) >= 4
    for seen in (shown, f"DEBUG:{shown}:", topics["source"], "DEBUG NetworkClient", "DEBUG:kafka"):
        assert any(seen in path.read_text(errors="replace") for path in said), seen
