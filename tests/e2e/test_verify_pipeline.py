"""`twophase verify --pipeline`: the user's own file, its rows known by an id, nothing hurt."""

import json
import subprocess
import sys
from uuid import uuid4

import pytest
from support.pipelines import QUICK, fill
from support.readers import values
from support.waiting import wait_until

from .test_verify import counts, in_cluster

VERIFY = [sys.executable, "-m", "twophase", "verify", "--output", "json"]
ROWS = 6_000

pytestmark = pytest.mark.long


def pipeline(folder, servers, source, target, *, guarantee="exactly-once"):
    """Write a file that makes JSON with an id of each number; return its path."""
    path = folder / "orders.yaml"
    # Offsets go with a transaction only.
    group = f"source_group: group-{uuid4().hex[:8]}" if guarantee == "exactly-once" else ""
    path.write_text(f"""\
kafka:
  kafka.bootstrap.servers: {servers}
source:
  kafka:
    topic: {source}
steps:
  - view: orders
    sql: |
      SELECT key, to_json(named_struct('order_id', CAST(value AS STRING), 'kind', 'order')) AS value
      FROM source
sinks:
  - kafka:
      sink_id: verify-{uuid4().hex[:8]}
      topic: {target}
      {group}
checkpoint: checkpoint
guarantee: {guarantee}
{QUICK}""")
    return path


def verified(path, *arguments):
    """Run the command; return exit code, what it found, and stderr."""
    done = subprocess.run(
        [*VERIFY, "--pipeline", str(path), "--faults", "kill-driver", *arguments],
        capture_output=True,
        check=False,
        text=True,
        timeout=280,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout or "null"), done.stderr


def test_a_pipeline_is_proved_and_not_touched(kafka, make_topic, tmp_path):
    """Each id once under kills; the file's own topic, group and checkpoint stay as they are."""
    source, target = make_topic(kafka, 3), make_topic(kafka, 2)
    fill(kafka.bootstrap_servers, source, range(ROWS))
    before = in_cluster(kafka)
    path = pipeline(tmp_path, kafka.bootstrap_servers, source, target)
    code, found, told = verified(path, "--id-column", "order_id")
    assert code == 0, (found, told)
    assert found["said"].startswith("ok: nothing was lost, doubled or left open; not looked at: ")
    assert found["verdict"]["rows_in"] == found["verdict"]["rows_out"] == ROWS
    harm = counts(found)
    assert (harm.pop("torn"), harm.pop("reordered")) == (None, None)
    assert set(harm.values()) == {0}
    assert found["faults"]["kill-driver"] >= 1
    assert not (tmp_path / "checkpoint").exists()
    assert values(kafka.bootstrap_servers, target) == []
    wait_until(lambda: in_cluster(kafka) == before)


def test_harm_in_a_pipeline_is_found(kafka, make_topic, tmp_path):
    """The same kills on a file that promises less: doubled ids, named, and exit code 1."""
    source, target = make_topic(kafka, 3), make_topic(kafka, 2)
    fill(kafka.bootstrap_servers, source, range(ROWS))
    servers = kafka.bootstrap_servers
    path = pipeline(tmp_path, servers, source, target, guarantee="at-least-once")
    code, found, told = verified(path, "--id-column", "order_id")
    assert code == 1, (found, told)
    assert counts(found)["duplicate"] > 0
    doubled = next(f for f in found["verdict"]["findings"] if f["kind"] == "duplicate")
    assert doubled["examples"][0].startswith('order_id "')


def test_a_column_that_identifies_nothing(kafka, make_topic, tmp_path):
    """Refused after the run without faults, by name; nothing is left behind."""
    source, target = make_topic(kafka), make_topic(kafka)
    fill(kafka.bootstrap_servers, source, range(10))
    before = in_cluster(kafka)
    path = pipeline(tmp_path, kafka.bootstrap_servers, source, target)
    code, _, told = verified(path, "--id-column", "kind")
    assert code == 2
    assert "--id-column kind does not identify rows" in told
    wait_until(lambda: in_cluster(kafka) == before)
