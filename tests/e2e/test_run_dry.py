"""`twophase run --dry-run`: what would be done, with no broker, and nothing is left behind."""

import json
import subprocess

import pytest
from support.pipelines import COMMAND, kafka_to_kafka

pytestmark = pytest.mark.long


def dry(path, *arguments):
    """Run the command; return exit code, stdout and stderr. Nothing is made beside the file."""
    before = sorted(path.parent.iterdir())
    done = subprocess.run(
        [*COMMAND, str(path), "--dry-run", *arguments],
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    assert sorted(path.parent.iterdir()) == before
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def path(tmp_path):
    """A file whose broker is not there, with a second sink that has SQL of its own."""
    path = kafka_to_kafka(tmp_path, "127.0.0.1:1", "numbers-in", "numbers-out")
    own = """\
  - kafka:
      sink_id: large
      topic: large-out
      sql: SELECT * FROM doubled WHERE value > 100
checkpoint:"""
    path.write_text(path.read_text().replace("checkpoint:", own))
    return path


def test_the_plan_for_people(path):
    """Source, steps, columns, sinks, checkpoint and the master on which it would run."""
    code, out, err = dry(path, "--master", "spark://cluster:7077", "--available-now")
    assert (code, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    where = "servers 127.0.0.1:1"
    promised = f"{where}, scope batch, guarantee exactly-once"
    begins = f"view source, topic numbers-in, {where}, starting_offsets earliest"
    assert lines[:5] == [
        "pipeline p",
        f"source kafka: {begins}, isolation read_committed, max_rows_per_batch 100",
        "step numbers: SELECT key, CAST(CAST(value AS STRING) AS BIGINT) AS number FROM source",
        "step doubled: SELECT key, CAST(2 * number AS STRING) AS value FROM numbers",
        "columns key binary, value string",
    ]
    assert lines[5].startswith("sink kafka: sink_id run-")
    assert lines[5].endswith(f", topic numbers-out, {promised}")
    assert lines[6:8] == [
        f"sink kafka: sink_id large, topic large-out, {promised}",
        "sql: SELECT * FROM doubled WHERE value > 100",
    ]
    assert lines[8] == f"state {path.parent}/checkpoint"
    assert "trigger available-now, output mode append" in lines
    assert "spark spark://cluster:7077" in lines


def test_the_plan_for_programs(path):
    """The same as JSON, and nothing else on stdout."""
    code, out, err = dry(path, "--output", "json")
    assert (code, err) == (0, "")
    plan = json.loads(out)
    assert plan["source"]["topic"] == "numbers-in"
    assert [step["view"] for step in plan["steps"]] == ["numbers", "doubled"]
    assert plan["columns"] == {"key": "binary", "value": "string"}
    sinks = [(sink["kind"], sink["topic"], sink["guarantee"]) for sink in plan["sinks"]]
    assert sinks == [
        ("kafka", "numbers-out", "exactly-once"),
        ("kafka", "large-out", "exactly-once"),
    ]
    assert plan["checkpoint"] == str(path.parent / "checkpoint")
    assert (plan["master"], plan["trigger"]) == ("local[2]", "as-fast-as-possible")


def test_every_mistake_in_sql_at_once(path):
    """Two queries that have nothing to do with each other, each told with its line; exit code 2."""
    text = path.read_text().replace("number FROM source", "number FORM source")
    other = "  - view: others\n    sql: SELECT topik FROM source\nsinks:"
    path.write_text(text.replace("sinks:", other))
    code, out, err = dry(path)
    assert (code, out) == (2, "")
    lines = path.read_text().splitlines()
    places = []
    for word in ("FORM", "topik"):
        (at,) = (at for at, line in enumerate(lines) if word in line)
        places.append(f"{path}:{at + 1}:{lines[at].index(word) + 1}: ")
    told = err.splitlines()
    assert len(told) == 2, err
    assert told[0].startswith(places[0])
    assert "Syntax error at or near 'FORM'" in told[0]
    assert told[1].startswith(places[1])
    assert "topik" in told[1]
    assert "did you mean" in told[1].lower()
