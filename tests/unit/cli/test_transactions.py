"""What `twophase transactions` refuses before it asks any broker, and how it says things."""

import click
import pytest

from twophase.cli.main import run
from twophase.cli.transaction_text import open_text
from twophase.cli.transactions import transactions
from twophase.kafka.holds import Tail, hold_of
from twophase.kafka.identity import TopicPartition
from twophase.kafka.open_transactions import OpenTransaction

NOBODY = ["--bootstrap-server", "127.0.0.1:1"]


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (["list", "--prefix", "a", "--sink-id", "b", *NOBODY], "either --prefix or --sink-id", 2),
        (["list", "--sink-id", "a/b", *NOBODY], "sink_id is 'a/b'", 1),
        (["list"], "give --bootstrap-server HOST:PORT", 2),
        (["abort", *NOBODY], "give either a transactional id, or --lingering with --sink-id", 2),
        (["abort", "x", "--lingering", "--sink-id", "y", *NOBODY], "give either", 2),
        (["abort", "--lingering", *NOBODY], "give either", 2),
        (["abort", "--sink-id", "s", *NOBODY], "give either", 2),
        (["abort", "x", "--watch", "0", *NOBODY], "0 is not in the range", 2),
        (["abort", "x", "--watch", "29", *NOBODY], "--watch is 29, and a job that lives may", 2),
        (["abort", "x"], "give --bootstrap-server HOST:PORT", 2),
    ],
)
def test_half_said(arguments, said, code, capsys):
    """One sentence, and nothing is asked."""
    assert run(["transactions", *arguments]) == code
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


def test_no_broker_there(tmp_path, capsys):
    """One sentence names the address and the reason."""
    config = tmp_path / "quick.properties"
    config.write_text("max.block.ms=500")
    assert run(["transactions", "list", *NOBODY, "--command-config", str(config)]) == 1
    assert "no answer from kafka.bootstrap.servers=127.0.0.1:1" in capsys.readouterr().err


def test_every_command_teaches():
    """Each has a help text with an example."""
    for command in (transactions, *transactions.commands.values()):
        with click.Context(command) as context:
            assert "Example" in command.get_help(context)


@pytest.mark.parametrize(
    ("tail", "said"),
    [
        (Tail(5, 9, {7: 5}, {}), "holds readers back at offset 5, 4 records before the end"),
        (Tail(2, 9, {7: 5}, {}), "readers stop before it, at 2, because of an older transaction"),
        (Tail(9, 9, {}, {}), "nothing is written there yet"),
        (Tail(5, 9), "is not known (READ on the topic tells)"),
        (Tail(), "its leader tells nothing of it"),
    ],
)
def test_a_partition_in_words(tail, said):
    """What is not known is said so."""
    hold = hold_of(TopicPartition("orders", 0), 7, tail)
    lines = open_text(OpenTransaction("x", 7, 2, "Ongoing", "then", 99, 60, (hold,)))
    assert said in lines[-1].plain
    assert "older than its timeout" in lines[2].plain
