"""Texts become types or one clear refusal, and a secret stays one."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twophase.errors import ConfigurationError
from twophase.options import (
    BOOLEAN,
    INT_MAX,
    MASK,
    TEXT,
    Option,
    Secret,
    as_text,
    choice,
    integer,
    nearest,
    shown,
)


@given(st.text(min_size=1))
def test_secret_is_never_shown(text):
    """No way of printing shows it; it survives pickling and can be compared."""
    secret = Secret(text)

    for printed in (repr(secret), str(secret), f"{secret}", f"{[secret]}", "%s" % secret):  # noqa: UP031
        assert printed in {"Secret(***)", "[Secret(***)]"}
    assert pickle.loads(pickle.dumps(secret)) == secret
    assert secret.reveal() == text


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (integer(1, 5), "5", 5),
        (integer(-1, INT_MAX), "-1", -1),
        (integer(0, INT_MAX), "+7", 7),
        (integer(0, INT_MAX), "007", 7),
        (BOOLEAN, "True", True),
        (BOOLEAN, "false", False),
        (choice({"all": -1, "1": 1}), "ALL", -1),
        (TEXT, "x", "x"),
    ],
)
def test_allowed_texts(kind, text, value):
    """What Java reads is read, with the same meaning."""
    assert kind.read(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (integer(1, 5), "0"),
        (integer(1, 5), "6"),
        (integer(0, INT_MAX), str(INT_MAX + 1)),
        (integer(0, INT_MAX), "60s"),
        (integer(0, INT_MAX), "1e3"),
        (integer(0, INT_MAX), "1_000"),
        (integer(0, INT_MAX), "1.0"),
        (integer(0, INT_MAX), ""),
        (integer(0, INT_MAX), "\u0661"),
        (integer(0, INT_MAX), "9" * 5000),
        (BOOLEAN, "yes"),
        (BOOLEAN, ""),
        (TEXT, ""),
        (TEXT, "a\0b"),
    ],
)
def test_refused_texts(kind, text):
    """Everything else is refused with key, value and what is allowed."""
    option = Option("some.key", "field", kind, None, "meaning")

    with pytest.raises(ConfigurationError) as caught:
        option.parse("kafka.some.key", text)

    assert str(caught.value).startswith("TWOPHASE_CONFIGURATION: kafka.some.key=")
    assert kind.allowed in str(caught.value)
    assert len(str(caught.value)) < 400
    assert caught.value.__cause__ is None


def test_python_values_are_read_as_java_would_write_them():
    """Both bool and int are welcome, text is trimmed, other types are named but not shown."""
    assert [as_text("k", value) for value in (True, False, 5, " x ")] == ["true", "false", "5", "x"]
    with pytest.raises(ConfigurationError, match="k is of type list"):
        as_text("k", ["hidden"])


def test_values_that_look_secret_are_masked():
    """A password under the wrong key is not told either."""
    assert shown("LoginModule required password=x") == MASK
    assert shown("-----BEGIN PRIVATE KEY-----") == MASK
    assert shown("all") == "'all'"
    assert len(shown("x" * 500)) < 100


def test_nearest_name():
    """A slip of the pen is recognised, nonsense is not."""
    assert nearest("ack", ["acks", "client.id"]) == "acks"
    assert nearest("zzz", ["acks", "client.id"]) is None
