"""What `twophase sinks` refuses before it asks any broker."""

import hashlib
import json
import subprocess
import sys

import click
import pytest

from twophase.cli.main import run
from twophase.cli.offsets import hash_of_batch
from twophase.cli.sinks import sinks
from twophase.errors import ConfigurationError

# Nothing listens there: a command that gets so far says that no broker answers.
NOBODY = ["--bootstrap-server", "127.0.0.1:1"]
HASH = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--owner", "q"], "either --committed N or --not-committed N"),
        (["--owner", "q", "--committed", "1", "--not-committed", "1"], "either --committed N or"),
        (["--committed", "1"], "give --owner"),
        (["--owner", "run", "--not-committed", "1"], "give --owner"),
        (["--owner", "q", "--run", "r", "--not-committed", "0"], "leave out --owner"),
        (["--owner", "q", "--not-committed", "-1"], "-1 is not in the range"),
        (["--owner", "q", "--not-committed", "1", "--offsets", HASH], "belong to --committed"),
        (["--run", "r", "--committed", "1"], "a run is batch 0"),
        (["--run", "r", "--committed", "0", "--offsets", HASH], "a run is batch 0"),
    ],
)
def test_a_half_said_adoption(arguments, said, capsys):
    """Who goes on and what is in the topic must both be said, and once: exit code 2."""
    assert run(["sinks", "adopt", "orders", *NOBODY, *arguments]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give either --offsets HASH"),
        (["--offsets", HASH, "--checkpoint", "."], "give either --offsets HASH"),
        (["--offsets", HASH[:-1]], "32 digits"),
        (["--checkpoint", "s3://bucket/checkpoint"], "must be the local folder"),
    ],
)
def test_a_batch_without_its_offsets(arguments, said, capsys):
    """A batch is skipped only where its offsets are known: one sentence says how to give them."""
    adopt = ["sinks", "adopt", "orders", *NOBODY, "--owner", "q", "--committed", "7"]
    assert run([*adopt, *arguments]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["show", "reset"])
def test_a_wrong_sink_id(verb, capsys):
    """The name is checked as the sink checks it."""
    assert run(["sinks", verb, "a/b", *NOBODY]) == 1
    assert "sink_id is 'a/b'" in capsys.readouterr().err


@pytest.fixture
def checkpoint(tmp_path):
    """A checkpoint as Spark writes it, with one planned batch."""
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "7").write_bytes(b'v1\n{"batchTimestampMs":1}\n{"orders":{"0":5}}')
    (tmp_path / "metadata").write_text(json.dumps({"id": "query-a"}))
    return tmp_path


def test_the_hash_of_a_checkpoint(checkpoint):
    """It is the hash that the sink itself computes of the same file."""
    content = (checkpoint / "offsets" / "7").read_bytes()
    expected = hashlib.sha256(content).hexdigest()[:32]
    assert hash_of_batch(7, "query-a", None, checkpoint) == expected


def test_the_checkpoint_of_another_query(checkpoint):
    """Its batch 7 is not the owner's batch 7; an owner by name is not in the checkpoint."""
    assert hash_of_batch(7, "nightly", None, checkpoint)
    with pytest.raises(ConfigurationError, match="belongs to query query-a, and --owner is 6f1c"):
        hash_of_batch(7, "6f1c6a0e-6a3f-4f0e-9d0e-0c9f8a3d2b11", None, checkpoint)


def test_a_checkpoint_without_the_batch(checkpoint):
    """The file that is missing is named."""
    with pytest.raises(ConfigurationError, match="offsets/8 cannot be read"):
        hash_of_batch(8, "query-a", None, checkpoint)


@pytest.mark.parametrize("content", ["{", "[]", "{}"])
def test_a_checkpoint_that_names_no_query(checkpoint, content):
    """It cannot be told whose it is, so the hash must be given."""
    (checkpoint / "metadata").write_text(content)
    with pytest.raises(ConfigurationError, match="does not name a query"):
        hash_of_batch(7, "query-a", None, checkpoint)


def test_every_command_teaches():
    """Each command has a help text with an example."""
    for command in (sinks, *sinks.commands.values()):
        with click.Context(command) as context:
            assert "Example" in command.get_help(context)


def test_help_pays_for_no_client():
    """Neither Arrow nor the Kafka client is imported before a command connects."""
    code = (
        "import sys; from twophase.cli.main import run; run(['sinks', '--help']); "
        "print([m for m in ('pyarrow', 'kafka', 'pyspark') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"
