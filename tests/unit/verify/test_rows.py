"""A row that is read back tells which input row it is, and whether it is whole."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twophase.errors import ConfigurationError
from twophase.verify.rows import CORRUPT, STRANGE, Input

NOW_MS = 1_763_273_670_123
INPUT = Input("run-1a2b3c4d", 2_000_000, 1000)


def made(number, of=INPUT):
    return of.key(number), of.value(number, NOW_MS)


@given(number=st.integers(0, INPUT.rows - 1))
def test_every_row_is_an_order_and_identifies_itself(number):
    """JSON of 100 to 200 bytes, with number, key and place among the key's rows."""
    key, value = made(number)
    assert INPUT.identify(key, value) == number
    order = json.loads(value)
    assert (order["number"], order["sequence"]) == (number, number // 1000)
    assert order["customer"].encode() == key
    assert order["time_ms"] == NOW_MS
    assert 100 <= len(value) <= 200


@given(number=st.integers(0, INPUT.rows - 1), at=st.integers(0, 99), bit=st.integers(0, 7))
def test_one_flipped_bit_makes_a_row_corrupt(number, at, bit):
    """Wherever it is, the row is not taken for another, nor for whole."""
    key, value = made(number)
    at = at * len(value) // 100
    damaged = value[:at] + bytes([value[at] ^ (1 << bit)]) + value[at + 1 :]
    assert INPUT.identify(key, damaged) == CORRUPT


@pytest.mark.parametrize("keep", [40, 100, -1])
def test_a_row_that_is_cut_off_is_corrupt(keep):
    """What begins like a row of the input and does not end like one."""
    key, value = made(17)
    assert INPUT.identify(key, value[:keep]) == CORRUPT


def test_a_row_under_another_key_is_corrupt():
    """Key and value belong together."""
    _, value = made(17)
    assert INPUT.identify(INPUT.key(18), value) == CORRUPT
    assert INPUT.identify(None, value) == CORRUPT


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"{}",
        b"not of any input",
        Input("run-other", 100).value(5, NOW_MS),
        Input(INPUT.name, INPUT.rows + 1).value(INPUT.rows, NOW_MS),
    ],
)
def test_what_is_not_of_the_input_is_strange(value):
    """Also whole rows of another input, and of a number that the input does not have."""
    assert INPUT.identify(INPUT.key(5), value) == STRANGE


def test_a_table_holds_the_rows_asked_for():
    """The columns that a sink takes."""
    table = INPUT.table(10, 13, NOW_MS)
    assert table.column_names == ["key", "value"]
    rows = zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)
    assert [INPUT.identify(*row) for row in rows] == [10, 11, 12]


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        (("a name", 1, 1), "the name of the input is 'a name'"),
        (("", 1, 1), "the name of the input is ''"),
        (("x", 0, 1), "rows is 0; allowed are 1 to 2147483647"),
        (("x", 1, 2**31), "keys is 2147483648; allowed are 1 to 2147483647"),
    ],
)
def test_a_wrong_input_is_refused(given_, said):
    """Named: what was found, and what is allowed."""
    with pytest.raises(ConfigurationError, match=said):
        Input(*given_)


def test_rows_that_the_input_does_not_have_are_refused():
    """They would be strange to every reader."""
    with pytest.raises(ConfigurationError, match=r"rows 0 to 11 were asked for; .* has 0 to 10"):
        Input("x", 10).table(0, 11, NOW_MS)
