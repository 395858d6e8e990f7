"""The alerts in a real Prometheus that scrapes a real sink, where the machine has one.

Its rules are those of deploy/ with times that a test can wait for. `promtool` shows the times as
they are (tests/unit/observe/test_metric_files.py).
"""

import json
import shutil
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen
from uuid import uuid4

import pytest
import yaml
from prometheus_client import CollectorRegistry
from support.waiting import wait_until

from twophase import KafkaSink
from twophase.embedded.ports import free_ports
from twophase.errors import Fenced
from twophase.kafka.store import KafkaStore
from twophase.prometheus import PrometheusHook

RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "alerts.yaml"
PROMETHEUS = shutil.which("prometheus")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(PROMETHEUS is None, reason="prometheus is not on this machine"),
]


def hurried(text):
    """The rules, with seconds for minutes and hours."""
    for slow, quick in (
        ("interval: 15s", "interval: 1s"),
        ("for: 1m", "for: 2s"),
        ("> 900", "> 3"),
        ("> 3600", "> 5"),
    ):
        assert text.count(slow) >= 1, slow
        text = text.replace(slow, quick)
    return text


@pytest.fixture
def firing(tmp_path):
    """Start Prometheus on a target; what it returns asks for the names of the alerts that fire."""
    processes = []

    def start(target):
        (tmp_path / "alerts.yaml").write_text(hurried(RULES.read_text()))
        scrape = {"job_name": "twophase", "static_configs": [{"targets": [target]}]}
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["alerts.yaml"],
            "scrape_configs": [scrape],
        }
        (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
        address = f"127.0.0.1:{free_ports(1)[0]}"
        command = [PROMETHEUS, f"--config.file={tmp_path / 'prometheus.yml'}"]
        command += [f"--storage.tsdb.path={tmp_path / 'data'}", f"--web.listen-address={address}"]
        with (tmp_path / "log").open("wb") as log:
            processes.append(subprocess.Popen(command, stdout=log, stderr=log))

        def ask(path):
            with urlopen(f"http://{address}/api/v1/{path}", timeout=10) as answer:
                return json.load(answer)["data"]

        def scraped():
            try:
                return any(each["health"] == "up" for each in ask("targets")["activeTargets"])
            except URLError:
                return False

        wait_until(scraped, 60)
        return lambda: {
            each["labels"]["alertname"]
            for each in ask("alerts")["alerts"]
            if each["state"] == "firing"
        }

    yield start
    for process in processes:
        process.terminate()
        process.wait(30)


def test_they_fire_and_end(spark, kafka, make_topic, firing, monkeypatch):
    """None while all is well; then a driver hangs, is fenced, and goes; each is told."""
    sink_id, topic = f"alerts-{uuid4().hex[:8]}", make_topic(kafka)
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "kafka.transaction.timeout.ms": 8_000,
    }
    rows = spark.range(5).selectExpr("cast(id AS string) AS value")
    hook = PrometheusHook(CollectorRegistry())
    endpoint = hook.serve(0)
    alerts = firing(f"127.0.0.1:{endpoint.port}")

    def write(run_id, *hooks):
        sink = KafkaSink(sink_id=sink_id, topic=topic, options=options, hooks=hooks)
        return sink.write(rows, run_id=run_id)

    # The first batch of a JVM takes longer than these rules allow.
    write("saturday")
    write("sunday", hook)
    # Prometheus has to see the counters before they count.
    wait_until(lambda: alerts() <= {"TwophaseNothingWritten"}, 60)
    at, go, commit = threading.Event(), threading.Event(), KafkaStore.commit

    def held(self, identity):
        if self._name.run_id == "monday" and not at.is_set():
            at.set()
            assert go.wait(120)
        return commit(self, identity)

    monkeypatch.setattr(KafkaStore, "commit", held)
    hung = {"TwophaseTransactionNearItsLimit", "TwophaseBatchStuck"}
    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(write, "monday", hook)
        try:
            assert at.wait(120)
            wait_until(lambda: hung <= alerts(), 60)
            assert write("monday").outcome == "committed"
        finally:
            go.set()
        with pytest.raises(Fenced):
            hanging.result(120)
    wait_until(lambda: "TwophaseFenced" in alerts(), 60)
    wait_until(lambda: not hung & alerts(), 60)
    wait_until(lambda: "TwophaseNothingWritten" in alerts(), 60)
    assert "TwophaseDriverGone" not in alerts()
    endpoint.close()
    wait_until(lambda: "TwophaseDriverGone" in alerts(), 60)
