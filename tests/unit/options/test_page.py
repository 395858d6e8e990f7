"""docs/options.md says what the code does."""

from unit.options.page import PAGE, SECURITY_PAGE, with_tables


def test_page_is_current():
    """Its tables are those of the code; `python tests/unit/options/page.py` writes them."""
    text = PAGE.read_text(encoding="utf-8")

    assert text == with_tables(text)
    assert text.count("<!-- end -->") == 3
    assert "| `kafka.acks` | all, -1, 1, 0 | `all` |" in text


def test_the_table_of_code_is_current():
    """docs/security.md names every option that is refused because it could run code."""
    text = SECURITY_PAGE.read_text(encoding="utf-8")

    assert text == with_tables(text)
    assert "| `kafka.interceptor.classes` | it names Java code to load" in text
