"""Write the tables of docs/options.md from the tables of the code: `python page.py`."""

import re
from pathlib import Path

from twophase.kafka.option_table import OPTIONS
from twophase.kafka.unmapped_options import IGNORED, IGNORED_PREFIXES, REFUSED, REFUSED_PREFIXES

PAGE = Path(__file__).parents[3] / "docs" / "options.md"


def with_tables(text: str) -> str:
    """Return the page with its three tables as the code has them."""
    for name, table in (("mapped", _mapped()), ("refused", _refused()), ("ignored", _ignored())):
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


def _refused() -> str:
    names = {**REFUSED, **{f"{prefix}*": why for prefix, why in REFUSED_PREFIXES.items()}}
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
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
