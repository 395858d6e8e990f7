"""What `twophase check` says before it asks any broker, and its exit codes."""

import click
import pyspark
import pytest

from twophase.cli.check import check
from twophase.cli.machine import (
    connector_finding,
    connectors,
    java_finding,
    machine_findings,
    spark_finding,
    spark_version,
)
from twophase.cli.main import run
from twophase.embedded import java
from twophase.embedded.fetch import fetch_jars
from twophase.kafka.findings import Level

SINK = ["--sink-id", "orders", "--topic", "orders"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Missing option '--sink-id'"),
        (["--sink-id", "orders"], "Missing option '--topic'"),
        (SINK, "give --bootstrap-server HOST:PORT"),
        (["--sink-id", "a/b", "--topic", "t", "--bootstrap-server", "127.0.0.1:1"], "'a/b'"),
        ([*SINK, "--bootstrap-server", "nowhere"], "kafka.bootstrap.servers"),
        ([*SINK, "--dead-letter-topic", "orders"], "which is the sink's own topic"),
        ([*SINK, "--scope", "row"], "'row' is not one of 'batch', 'task'"),
        ([*SINK, "--scope", "task", "--source-group", "g"], "leave source_group out"),
        ([*SINK, "--run", "a/b"], "run_id is 'a/b'"),
        ([*SINK, "--guarantee", "twice"], "'twice' is not one of 'exactly-once'"),
        ([*SINK, "--guarantee", "none", "--scope", "task"], 'scope="task" is given with'),
    ],
)
def test_half_said(arguments, said, capsys):
    """One sentence, and exit code 2: 1 would mean a warning."""
    assert run(["check", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


def test_acks_that_the_sink_refuses(tmp_path, capsys):
    """By the guarantee, before any broker is asked: nobody is at this address."""
    config = tmp_path / "acks.properties"
    config.write_text("acks=1\nbootstrap.servers=127.0.0.1:1\nmax.block.ms=500\n")
    arguments = ["check", *SINK, "--command-config", str(config), "--guarantee"]
    for guarantee in ("exactly-once", "at-least-once"):
        assert run([*arguments, guarantee]) == 2
        said = f"kafka.acks must be all with the guarantee {guarantee}"
        assert said in capsys.readouterr().err
    assert run([*arguments, "none"]) == 2
    assert "no answer from" in capsys.readouterr().err


def test_no_broker_there(tmp_path, capsys):
    """An error by its exit code, in one sentence."""
    config = tmp_path / "quick.properties"
    config.write_text("max.block.ms=500\nbootstrap.servers=127.0.0.1:1\n")
    assert run(["check", *SINK, "--command-config", str(config)]) == 2
    assert "no answer from kafka.bootstrap.servers=127.0.0.1:1" in capsys.readouterr().err


def test_help_teaches():
    """An example, and what the exit codes mean."""
    with click.Context(check) as context:
        said = check.get_help(context)
    assert "Example" in said
    assert "The exit code says the worst: 0" in said


def test_a_machine_without_anything(monkeypatch, tmp_path):
    """What is missing here is a warning or not known: the driver may run elsewhere."""
    monkeypatch.setattr(java, "_candidates", lambda: iter(()))
    monkeypatch.setenv("TWOPHASE_HOME", str(tmp_path))
    levels = {found.point: found.level for found in machine_findings()}
    assert (levels["java"], levels["connector"]) == (Level.WARNING, Level.UNKNOWN)


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Make a Java of some version the only one."""

    def make(number):
        script = tmp_path / "bin" / "java"
        script.parent.mkdir(exist_ok=True)
        script.write_text(f"#!/bin/sh\necho 'openjdk version \"{number}\"' >&2\n")
        script.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    return make


@pytest.mark.parametrize(
    ("number", "spark", "level"),
    [
        ("17.0.15", "4.0.1", Level.OK),
        ("21.0.2", "4.2.0", Level.OK),
        ("25", "4.2.0", Level.OK),
        ("25.0.1", "4.1.0", Level.WARNING),
        ("24", "4.0.0", Level.WARNING),
        ("17", "4.9.0", Level.UNKNOWN),
        ("17", None, Level.OK),
    ],
)
def test_java_beside_spark(install, number, spark, level):
    """Its version is told, and held against what this Spark is made for."""
    install(number)
    found = java_finding(spark)
    assert (found.level, found.said.startswith(f"{number} (")) == (level, True)
    if level is Level.WARNING:
        assert f"beside pyspark {spark}" in found.said
        assert "Java 17 or 21" in found.why


@pytest.mark.parametrize(
    ("spark", "found", "level"),
    [
        ("4.2.0", {"here": "4.2.0"}, Level.OK),
        ("4.2.1", {"here": "4.2.0"}, Level.OK),
        ("4.0.1", {"here": "4.2.0"}, Level.WARNING),
        ("4.0.1", {"there": "4.0.0", "here": "4.2.0"}, Level.WARNING),
        (None, {"here": "4.2.0"}, Level.UNKNOWN),
        ("4.2.0", {}, Level.UNKNOWN),
        ("4.9.0", {}, Level.UNKNOWN),
        (None, {}, Level.UNKNOWN),
    ],
)
def test_the_connector_beside_spark(spark, found, level):
    """Each is built for one release line of Spark; another one is a warning with both versions."""
    said = connector_finding(spark, found)
    assert said.level is level
    assert all(number in said.said for number in found.values())
    if level is Level.WARNING:
        assert f"beside pyspark {spark}" in said.said
    if not found and spark == "4.9.0":
        assert "spark.jars.packages=org.apache.spark:" in said.said


def test_what_is_here():
    """The versions of this machine itself."""
    assert spark_finding(None).level is Level.UNKNOWN
    assert spark_finding(spark_version()).said == f"pyspark {pyspark.__version__}"
    assert spark_finding("8.1.0").level is Level.ERROR
    assert java_finding(spark_version()).said.startswith(java.java_version(java.find_java()))
    fetch_jars("spark-kafka-4.2.0")
    assert connectors("4.2.7") == {"fetched by twophase.configure_spark": "4.2.0"}
    assert connectors("4.9.0") == connectors(None) == {}
