"""`sasl.jaas.config` is read as Java reads it, and never repeated in an error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twophase.kafka.jaas import JaasError, parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ('"simple"', "simple"),
        ("'simple'", "simple"),
        ("simple", "simple"),
        ("with-_$.signs", "with-_$.signs"),
        ("12345", "12345"),
        ('"a b;c=d//e/*f*/"', "a b;c=d//e/*f*/"),
        (r'"quote \" and backslash \\"', 'quote " and backslash \\'),
        (r"'quote \' in single'", "quote ' in single"),
        (r'"\t\n\101\0"', "\t\nA\0"),
        (r'"\z"', "z"),
        ('"it\'s"', "it's"),
        ('"ключ"', "ключ"),
        ('""', ""),
    ],
)
def test_values(written, value):
    """Quotes, escapes and bare words have the meaning that Java's tokenizer gives them."""
    module = parse_jaas(f'{PLAIN} required username="u" password={written};')

    assert module.options == {"username": "u", "password": value}
    assert module.simple_name == "PlainLoginModule"


@pytest.mark.parametrize(
    "text",
    [
        f"{PLAIN} required;",
        f"  {PLAIN}\n\tREQUIRED\n;\n",
        f"// a comment\n{PLAIN} /* and\nanother */ optional; // the end",
    ],
)
def test_layout_is_free(text):
    """Line breaks and comments may stand anywhere."""
    assert parse_jaas(text).name == PLAIN


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must begin with"),
        (";", "must begin with"),
        (PLAIN, "must begin with"),
        (f"{PLAIN} maybe;", "must begin with"),
        (f"{PLAIN} = x;", "must begin with"),
        (f"{PLAIN} required", "final ';'"),
        (f'{PLAIN} required username="u"', "final ';'"),
        (f"{PLAIN} required username;", "final ';'"),
        (f"{PLAIN} required username=;", "option=value"),
        (f"{PLAIN} required =u;", "final ';'"),
        (f'{PLAIN} required username "u" x;', "option=value"),
        (f'{PLAIN} required password="open;', "not closed"),
        (f'{PLAIN} required password="two\nlines";', "not closed"),
        (f'{PLAIN} required password="two\rlines";', "not closed"),
        (f"{PLAIN} required password=p@ss;", "in quotes"),
        (f"{PLAIN} required; {PLAIN} required;", "one login module"),
    ],
)
def test_refused(text, message):
    """What Java refuses is refused, by position."""
    with pytest.raises(JaasError, match=message):
        parse_jaas(text)


def test_a_line_ends_where_java_ends_it():
    """A second reading of the text would let another module than the one that is checked in."""
    found = parse_jaas(f'//\r evil.Module required x="y"; /*\n {PLAIN} required; // */')
    assert found.name == "evil.Module"


@given(st.text(st.characters(exclude_characters="\r\n", codec="utf-8")))
def test_any_password_can_be_quoted(password):
    """Backslash before quote and backslash is enough for every password of one line."""
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')

    module = parse_jaas(f'{PLAIN} required username="u" password="{quoted}";')

    assert module.options["password"] == password
    assert "password" not in repr(module)


@given(st.text(alphabet="abcXYZ='\";\\/* \n\t@required.", max_size=60))
def test_no_text_breaks_the_parser_or_is_repeated(text):
    """Any text gives a module or a JaasError without the text."""
    try:
        parse_jaas(f'{PLAIN} required password="hunter2" {text}')
    except JaasError as error:
        assert "hunter2" not in str(error)  # noqa: PT017
