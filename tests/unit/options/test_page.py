"""docs/options.md says what the code does."""

from unit.options.page import PAGE, with_tables


def test_page_is_current():
    """Its tables are those of the code; `python tests/unit/options/page.py` writes them."""
    text = PAGE.read_text(encoding="utf-8")

    assert text == with_tables(text)
    assert text.count("<!-- end -->") == 3
    assert "| `kafka.acks` | all, -1, 1, 0 | `all` |" in text
