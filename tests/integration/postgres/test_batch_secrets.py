"""The password of a batch-scope sink is in no text."""

import pickle

import pytest
from support.batch_scope import SCHEMA, Given, numbered, write

from twophase.errors import ConfigurationError, StoreUnavailable
from twophase.options import Secret
from twophase.postgres import batch_scope
from twophase.postgres.batch_scope import BatchScope
from twophase.postgres.connection import place_of
from twophase.postgres.staging import Staging
from twophase.postgres.target import Target
from twophase.spark.postgres_sink import PostgresSink, StageTask

CANARY = "canary-7"
ADDRESS = f"postgresql://me:{CANARY}@127.0.0.1:1/nowhere"


def test_the_password_is_in_no_text(caplog):
    """Not in a repr, not in an error, not in a log, and not on its way to a task."""
    caplog.set_level(0)
    url = Secret(ADDRESS)
    stage = Staging(url, "s", "public", Target("t").table)
    table = batch_scope.Stage(url, "public", "t")
    scope = BatchScope(url, Target("t"), "public", "s")
    sink = PostgresSink(ADDRESS, "t", sink_id="s")
    sent = [pickle.loads(pickle.dumps(each)) for each in (table, sink, StageTask(table))]
    for each in (url, stage, table, scope, sink, StageTask(table), *sent):
        assert CANARY not in f"{each!r} {each} {vars_of(each)}"
    acts = [
        lambda: write(scope, 0, *numbered(1)),
        lambda: table.fill(1, [Given().batch(numbered(1))]),
        lambda: sink._check(None, SCHEMA),
    ]
    for act in acts:
        with pytest.raises(StoreUnavailable, match="PostgreSQL does not answer") as found:
            act()
        assert CANARY not in f"{found.value} {found.value!r} {found.value.__cause__!r}"
    assert CANARY not in place_of(url)
    assert CANARY not in caplog.text


def vars_of(thing):
    """What a debugger shows of it."""
    return repr(getattr(thing, "__dict__", None))


@pytest.mark.parametrize(
    "url",
    [
        f"{CANARY}",
        f"me:{CANARY}@host/name",
        f"postgresql://me:{CANARY}%@host/name",
        f"host=h password={CANARY} {CANARY}",
        f"host=h password='{CANARY}",
        f"postgresql://host/name?{CANARY}=1",
    ],
)
def test_a_url_that_is_no_address(url):
    """It is refused in one sentence that has nothing of it."""
    with pytest.raises(ConfigurationError, match="url is no address of a database") as found:
        PostgresSink(url, "t", sink_id="s")
    assert CANARY not in str(found.value)
    assert found.value.__context__ is None
    assert "\n" not in found.value.message


def test_a_password_that_is_not_escaped():
    """With its slash it is taken for a port: refused like any url that is no address."""
    with pytest.raises(ConfigurationError, match="url is no address") as found:
        PostgresSink(f"postgresql://localhost:{CANARY}/rest@127.0.0.1:1/name", "t", sink_id="s")
    assert CANARY not in str(found.value)
