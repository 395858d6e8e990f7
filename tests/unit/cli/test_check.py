"""What `twophase check` says before it asks any broker, and its exit codes."""

import click
import pytest

from twophase.cli.check import check
from twophase.cli.machine import machine_findings, spark_finding
from twophase.cli.main import run
from twophase.embedded import java
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
    ],
)
def test_half_said(arguments, said, capsys):
    """One sentence, and exit code 2: 1 would mean a warning."""
    assert run(["check", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


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
    assert spark_finding("no-such-package").level is Level.UNKNOWN
    assert spark_finding("pyspark").level is Level.OK
    assert spark_finding("click").level is Level.ERROR  # 8 is no version of Spark 4
