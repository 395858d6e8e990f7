"""Every command against brokers that deny everything: one clear sentence, never a traceback."""

import json
from uuid import uuid4

import click
import pytest
from integration.security.conftest import COMMANDS

from twophase.cli.main import twophase

# Brokers leave out of their lists what may not be described: there is nothing to refuse.
LISTS = {
    ("sinks", "list"): "no sink is known here, among those that this user may DESCRIBE",
    ("transactions", "list"): "no transaction is open, among those that this user may DESCRIBE",
}
ASKED = {
    **COMMANDS,
    "check, none": (*COMMANDS["check"], "--guarantee", "none"),
    "check, at-least-once": (*COMMANDS["check"], "--guarantee", "at-least-once"),
    "sinks show, no topic": ("sinks", "show", "{sink}"),
    "sinks reset, no topic": ("sinks", "reset", "{sink}", "--yes"),
    "transactions list, all": ("transactions", "list"),
    "transactions abort --lingering": (
        *("transactions", "abort", "--lingering", "--sink-id", "{sink}", "--yes"),
    ),
}
# Looks at the brokers as `tests/e2e/test_verify_secured.py` has it, with a Spark behind it.
ELSEWHERE = {("verify",)}


@pytest.mark.parametrize("name", ASKED)
def test_nobody_may_do_anything(super_user, command, name):
    """The right that is missing is named, or what is not seen; nothing goes on."""
    topic, sink = super_user.make_topic(), f"sink-{uuid4().hex[:8]}"
    code, out, err = command(ASKED[name], user="nobody", sink=sink, topic=topic)
    if ASKED[name] in LISTS:
        assert (code, out, err) == (0, LISTS[ASKED[name]] + "\n", "")
    elif name == "check":
        assert (code, err) == (2, "")
        for rights in (
            f"topic {topic}: DESCRIBE and READ and WRITE missing",
            f"group twophase.{sink}: DESCRIBE and READ missing",
            f"transactional id twophase.{sink}: DESCRIBE and WRITE missing",
        ):
            assert f"error     rights on {rights}\n" in out
    elif name.startswith("check, "):
        assert (code, err) == (2, "")
        assert f"error     rights on topic {topic}: DESCRIBE and WRITE missing\n" in out
        assert f"twophase.{sink}" not in out
    else:
        assert (code, out) == (1, "")
        (said,) = err.splitlines()
        assert said.startswith("TWOPHASE_ACCESS_DENIED: ")
        assert f"grant DESCRIBE on transactional id 'twophase.{sink}'" in said


def test_a_program_is_told_as_well(command):
    """The same sentence in an object on stdout, with the stable code."""
    show = ("sinks", "show", "denied", "--output", "json")
    code, out, err = command(show, user="nobody")
    told = json.loads(out)
    assert (code, told["code"], told["error_code"]) == (1, 1, "TWOPHASE_ACCESS_DENIED")
    assert err == told["error"] + "\n"


def test_no_command_is_left_out():
    """Of those that connect to brokers."""
    found = {path for path, each in leaves(twophase) if "bootstrap_server" in names(each)}
    assert found == {tuple(name.split()) for name in COMMANDS} | ELSEWHERE


def leaves(command, path=()):
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name, each in command.commands.items():
        yield from leaves(each, (*path, name))


def names(command):
    return {each.name for each in command.params}
