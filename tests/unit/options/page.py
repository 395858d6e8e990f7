"""Write the tables of docs/options.md and docs/security.md from the code: `python page.py`."""

import re
from collections.abc import Mapping
from pathlib import Path

from twophase.kafka.code_options import CODE, CODE_PREFIXES
from twophase.kafka.option_table import OPTIONS
from twophase.kafka.unmapped_options import IGNORED, IGNORED_PREFIXES, REFUSED, REFUSED_PREFIXES

PAGE = Path(__file__).parents[3] / "docs" / "options.md"
SECURITY_PAGE = PAGE.with_name("security.md")


def with_tables(text: str) -> str:
    """Return a page with those tables that it has as the code has them."""
    tables = {
        "mapped": _mapped(),
        "refused": _refused(REFUSED, REFUSED_PREFIXES),
        "ignored": _ignored(),
        "code": _refused(CODE, CODE_PREFIXES),
    }
    for name, table in tables.items():
        begin, end = f"<!-- {name} -->\n", "<!-- end -->"
        pattern = re.escape(begin) + ".*?" + re.escape(end)
        text = re.sub(pattern, lambda _, t=begin + table + end: t, text, count=1, flags=re.DOTALL)
    return text


def _mapped() -> str:
    lines = ["| option | allowed | default | Java | meaning |", "|---|---|---|---|---|"]
    for option in OPTIONS.values():
        default = "" if option.default is None else f"`{option.default}`"
        java = "" if option.java is None else f"`{option.java}`"
        allowed = option.kind.allowed.removeprefix("one of ")
        row = (f"`kafka.{option.name}`", allowed, default, java, option.meaning)
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def _refused(by_name: Mapping[str, str], by_prefix: Mapping[str, str]) -> str:
    names = {**by_name, **{f"{prefix}*": why for prefix, why in by_prefix.items()}}
    rows = [f"| `kafka.{name}` | {reason} |" for name, reason in names.items()]
    return "\n".join(["| option | why, and what instead |", "|---|---|", *rows]) + "\n"


def _ignored() -> str:
    names = {**IGNORED, **{f"{prefix}*": why for prefix, why in IGNORED_PREFIXES.items()}}
    lines = ["| because | options |", "|---|---|"]
    for reason in dict.fromkeys(names.values()):
        members = ", ".join(f"`{name}`" for name, why in names.items() if why == reason)
        lines.append(f"| {reason} | {members} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for page in (PAGE, SECURITY_PAGE):
        page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")
