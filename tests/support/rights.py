"""The rights that docs/security.md lists, and what a sink does without each of them."""

import re
from pathlib import Path
from uuid import uuid4

import pytest

from support.secured import Right
from support.sinks import Run, batches
from twophase.commit.naming import SinkName
from twophase.errors import AccessDenied

PAGE = Path(__file__).parents[2] / "docs" / "security.md"


def rights_of(section, page=PAGE, **names):
    """Return the rights that a section of docs/security.md lists, with these names put in.

    The marker's topic is that of the rows, unless another one is given.
    """
    names = {"marker": names.get("topic"), **names}
    text = page.read_text()
    begin = text.index(f"<!-- rights: {section} -->")
    rows = re.findall(
        r"^\| (\w+) \| ([\w ]+) \| `([^`]+)` \|", text[begin:].split("<!-- end")[0], re.MULTILINE
    )
    assert rows, section
    return tuple(Right(operation, kind, name.format(**names)) for operation, kind, name in rows)


def names(right, error):
    """Whether an error names a right: operation, kind of resource and its name."""
    said, name = str(error), right.name.removesuffix("*")
    return f" on {right.kind} '{name}" in said and re.search(rf"\b{right.operation}\b", said)


def in_batch_scope(super_user, wire):
    """Write a batch with all rights, then one after another without each of them first."""
    topic, name = super_user.make_topic(), SinkName(f"sink-{uuid4().hex[:8]}")
    rights = rights_of("batch scope", topic=topic, sink=name.sink_id)
    super_user.grant("etl", *rights)
    run = Run(wire, name, topic, "query-a")
    run.write(0)
    for number, right in enumerate(rights, start=1):
        super_user.revoke("etl", right)
        with pytest.raises(AccessDenied) as caught:
            run.write(number)
        assert names(right, caught.value), f"{right}: {caught.value}"
        super_user.grant("etl", right)
        run.write(number)
    assert super_user.values(topic) == batches(*range(len(rights) + 1))
    return topic, name, rights


def command_rights(**given):
    """Return the rights that docs/security.md lists for each command."""
    text = PAGE.read_text().split("<!-- rights: commands -->")[1].split("<!-- end")[0]
    found = {}
    for names_, operation, kind, name in re.findall(
        r"^\| ([^|]+) \| (\w+) \| ([\w ]+) \| `([^`]+)` \|$", text, re.MULTILINE
    ):
        for command in re.findall(r"`([^`]+)`", names_):
            found.setdefault(command, []).append(Right(operation, kind, name.format(**given)))
    return found
