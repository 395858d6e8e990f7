"""docs/pipelines.md, the JSON schema and the examples follow the table."""

import inspect
import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator
from unit.pipeline.files import RIGHT, changed
from unit.pipeline.page import PAGE, SCHEMA, with_tables

from twophase import KafkaSink, PostgresSink, TaskSink
from twophase.pipeline.schema import pipeline_schema
from twophase.pipeline.table import KAFKA_SINK, POSTGRES_SINK, PYTHON_SINK

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_the_page_is_current():
    """Its tables are those of the code; `python tests/unit/pipeline/page.py` writes them."""
    text = PAGE.read_text(encoding="utf-8")
    assert text == with_tables(text)
    assert "| `starting_offsets` |" in text
    assert json.loads(SCHEMA.read_text(encoding="utf-8")) == pipeline_schema()


def test_the_schema_takes_what_the_check_takes():
    """And refuses what an editor can see by itself."""
    Draft202012Validator.check_schema(pipeline_schema())
    check = Draft202012Validator(pipeline_schema())
    assert check.is_valid(yaml.safe_load(RIGHT))
    for path in EXAMPLES.glob("*.yaml"):
        assert check.is_valid(yaml.safe_load(path.read_text())), path
    for before, after in [
        ("name:", "nam:"),
        ("checkpoint: state\n", ""),
        ("source:\n", "source:\n  rate: {}\n"),
        ("checkpoint:", "restarts: -1\ncheckpoint:"),
        ("checkpoint:", "guarantee: twice\ncheckpoint:"),
        ("sink_id: orders-clean\n", "sink_id: {}\n"),
    ]:
        assert not check.is_valid(yaml.safe_load(changed(before, after))), after


@pytest.mark.parametrize(
    ("kind", "section", "other"),
    [
        # What returns tokens is a function, and a file has none.
        (KafkaSink, KAFKA_SINK, {"guarantee", "token_provider"}),
        (PostgresSink, POSTGRES_SINK, set()),
        (TaskSink, PYTHON_SINK, {"sink"}),
    ],
)
def test_keys_of_a_sink_are_the_arguments_of_its_class(kind, section, other):
    """None is forgotten: a new argument needs a key."""
    arguments = set(inspect.signature(kind).parameters) - {"hooks", "checkpoint", "owner"} - other
    assert set(section.names()) - {"sql", "name", "arguments"} == arguments
