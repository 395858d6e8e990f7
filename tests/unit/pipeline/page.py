"""Write the tables of docs/pipelines.md and the JSON schema from the code: `python page.py`."""

import json
import re
from pathlib import Path

from twophase.pipeline import table
from twophase.pipeline.endings import Ending, meaning
from twophase.pipeline.fields import Section
from twophase.pipeline.schema import pipeline_schema
from twophase.pipeline.source_options import SOURCE

DOCS = Path(__file__).parents[3] / "docs"
PAGE, SCHEMA = DOCS / "pipelines.md", DOCS / "pipeline.schema.json"

SECTIONS = {
    "pipeline": table.PIPELINE,
    "source-kafka": table.KAFKA_SOURCE,
    "source-files": table.FILES_SOURCE,
    "source-rate": table.RATE_SOURCE,
    "step": table.STEP,
    "sink-kafka": table.KAFKA_SINK,
    "sink-postgres": table.POSTGRES_SINK,
    "sink-python": table.PYTHON_SINK,
    "metrics": table.METRICS,
    "spark": table.SPARK,
}


def with_tables(text: str) -> str:
    """Return the page with its tables as the code has them."""
    tables = {name: _table(section) for name, section in SECTIONS.items()}
    tables |= {"source-options": _options(), "exit-codes": _endings()}
    for name, lines in tables.items():
        begin, end = f"<!-- {name} -->\n", "<!-- end -->"
        assert begin in text, name
        pattern = re.escape(begin) + ".*?" + re.escape(end)
        text = re.sub(pattern, lambda _, t=begin + lines + end: t, text, count=1, flags=re.DOTALL)
    return text


def _table(section: Section) -> str:
    lines = ["| key | what may be written | default | meaning |", "|---|---|---|---|"]
    for each in section.fields:
        default = "**required**" if each.required else f"`{each.default}`" if each.default else ""
        allowed = each.type.allowed.removeprefix("one of ")
        lines.append(f"| `{each.name}` | {allowed} | {default} | {each.meaning} |")
    return "\n".join(lines) + "\n"


def _options() -> str:
    lines = ["| option | what may be written | meaning |", "|---|---|---|"]
    lines += [f"| `{o.name}` | {o.kind.allowed} | {o.meaning} |" for o in SOURCE.values()]
    return "\n".join(lines) + "\n"


def _endings() -> str:
    lines = ["| code | meaning |", "|---|---|"]
    return "\n".join([*lines, *(f"| {int(e)} | {meaning(e)} |" for e in Ending)]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    SCHEMA.write_text(json.dumps(pipeline_schema(), indent=2) + "\n", encoding="utf-8")
