"""Rows known by an id of the user's own: what counts as the same row, and what is refused."""

from dataclasses import dataclass

import pytest

from twophase.errors import ConfigurationError
from twophase.verify.checker import check
from twophase.verify.ids import Ids, id_in
from twophase.verify.rows import CORRUPT, STRANGE
from twophase.verify.seen import collect
from twophase.verify.verdict import Kind


@dataclass(frozen=True)
class Row:
    """A row as a reader hands it over."""

    partition: int
    offset: int
    key: bytes
    value: bytes


def rows(*ids):
    """Rows of one partition with these ids, as JSON writes them."""
    return [
        Row(0, at, b"k%d" % at, b'{"order_id": %b, "n": %d}' % (each.encode(), at))
        for at, each in enumerate(ids)
    ]


@pytest.mark.parametrize(
    ("column", "value", "found"),
    [
        ("order_id", b'{"order_id": 7}', "7"),
        ("order_id", b'{"order_id": "7"}', '"7"'),
        ("order_id", b'{"order_id": {"b": 1, "a": 2}}', '{"a": 2, "b": 1}'),
        ("order_id", b'{"order_id": null}', None),
        ("order_id", b'{"other": 7}', None),
        ("order_id", b"[7]", None),
        ("order_id", b"no json", None),
        ("order_id", None, None),
        ("key", None, "a-key"),
    ],
)
def test_the_id_of_a_row(column, value, found):
    """A number is not its text; a row without one has none."""
    assert id_in(column, b"a-key", value) == found


def test_each_id_once():
    """What is missing, there twice, without an id or of no run before is told by its id."""
    of = Ids.of("ids", "order_id", rows("1", "2", "3"))
    assert of.identify(None, b'{"order_id": 9}') == STRANGE
    assert of.identify(None, b"cut off {") == CORRUPT
    seen = collect(of, rows("3", "1", "3", "9", "null"))
    verdict = check("s", of, seen, running=None, batches=None, left_open=())
    assert {kind: verdict.count(kind) for kind in Kind if verdict.count(kind)} == {
        Kind.LOST: 1,
        Kind.DUPLICATE: 1,
        Kind.STRANGE: 1,
        Kind.CORRUPT: 1,
    }
    assert verdict.finding(Kind.LOST).examples == ("order_id 2",)
    assert verdict.finding(Kind.DUPLICATE).examples == ("order_id 3 at 0:0, 0:2",)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (rows("1", "2", "1"), "does not identify rows: the row at 0:2"),
        (rows("1", "null"), "the row at 0:1 of the run without faults has none"),
        ([], "wrote no row in the run without faults"),
    ],
)
def test_a_column_that_identifies_nothing(given, said):
    """Refused, because the verdict would mean nothing."""
    with pytest.raises(ConfigurationError, match=said):
        Ids.of("ids", "order_id", given)
