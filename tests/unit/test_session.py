"""configure_spark, on a builder without a session."""

import re
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from twophase.spark import session
from twophase.spark.session import configure_spark


@pytest.fixture
def builder(monkeypatch):
    """Return a builder of our own, with the connector at hand and no interpreter chosen."""
    monkeypatch.setattr(
        session, "fetch_jars", lambda name: (Path(f"/{name}/a.jar"), Path("/b.jar"))
    )
    monkeypatch.setenv("PYSPARK_PYTHON", "")
    monkeypatch.delenv("PYSPARK_PYTHON")
    builder = SparkSession.Builder()
    monkeypatch.setattr(builder, "_options", {}, raising=False)
    return builder


def test_adds_connector_and_interpreter(builder, monkeypatch):
    """Jars and interpreter are set, and the same builder is returned."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert configure_spark(builder) is builder
    assert builder._options["spark.jars"] == "/spark-kafka-4.2.0/a.jar,/b.jar"
    assert builder._options["spark.pyspark.python"] == sys.executable
    assert session.os.environ["PYSPARK_PYTHON"] == sys.executable


def test_keeps_the_users_jars(builder):
    """Jars that were named before come first, none twice; extra ones come last."""
    builder.config("spark.jars", "/mine.jar,/b.jar")
    configure_spark(builder, extra_jars=[Path("/more.jar")])
    expected = "/mine.jar,/b.jar,/spark-kafka-4.2.0/a.jar,/more.jar"
    assert builder._options["spark.jars"] == expected
    assert configure_spark(builder)._options["spark.jars"] == expected


def test_unix_sockets_with_a_local_master_unless_the_user_chose(builder):
    """A cluster's temporary folders may have paths that are too long for a socket."""
    setting = "spark.python.unix.domain.socket.enabled"
    assert setting not in configure_spark(builder)._options
    for master in ("yarn", "local-cluster[2,1,1024]"):
        assert setting not in configure_spark(builder.master(master))._options
    assert configure_spark(builder.master("local[2]"))._options[setting] == "true"
    builder.config(setting, "false")
    assert configure_spark(builder)._options[setting] == "false"


def test_keeps_the_users_interpreter(builder, monkeypatch):
    """An interpreter chosen by variable or setting stays."""
    monkeypatch.setenv("PYSPARK_PYTHON", "/my/python")
    assert configure_spark(builder)._options["spark.pyspark.python"] == "/my/python"
    monkeypatch.delenv("PYSPARK_PYTHON")
    builder.config("spark.pyspark.python", "/set/python")
    assert configure_spark(builder)._options["spark.pyspark.python"] == "/set/python"
    assert session.os.environ["PYSPARK_PYTHON"] == "/set/python"


def test_spark_hides_login_modules_and_inline_keys(builder):
    """By name or by text, as Spark looks for them; what the user chose to hide stays."""
    setting = "spark.redaction.regex"
    hides = re.compile(configure_spark(builder)._options[setting])
    for hidden in (
        "kafka.sasl.jaas.config",
        "kafka.ssl.keystore.key",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----",
        "kafka.ssl.key.password",
    ):
        assert hides.search(hidden)
    assert not hides.search("kafka.bootstrap.servers")
    builder.config(setting, "mine")
    assert configure_spark(builder)._options[setting] == "mine"
