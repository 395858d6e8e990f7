"""`twophase verify --master spark://...` on a real cluster of two workers."""

import json
import os
import re
import subprocess
import sys

import pytest

from .cluster import SparkCluster

pytestmark = pytest.mark.long
ROWS = 9_000


def test_on_a_standalone_cluster(kafka, tmp_path):
    """The driver killed amid batches whose tasks run on two executors: nothing was hurt."""
    with SparkCluster(tmp_path / "spark", workers=2) as cluster:
        (tmp_path / "conf").mkdir()
        (tmp_path / "events").mkdir()
        # As a machine has them from which jobs are submitted; the command's go before them.
        settings = cluster.settings()["conf"] | {"spark.planted": "by the file"}
        defaults = "".join(f"{name} {text}\n" for name, text in settings.items())
        given = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": (tmp_path / "events").as_uri(),
            "spark.planted": "by the command",
        }
        (tmp_path / "conf" / "spark-defaults.conf").write_text(defaults)
        done = subprocess.run(
            [
                *(sys.executable, "-m", "twophase", "verify", "--output", "json"),
                *("--bootstrap-server", kafka.bootstrap_servers, "--master", cluster.url),
                *("--for", "30s", "--rate", str(ROWS // 30), "--faults", "kill-driver"),
                *(part for name, text in given.items() for part in ("--conf", f"{name}={text}")),
            ],
            capture_output=True,
            check=False,
            text=True,
            timeout=280,
            env=os.environ | {"SPARK_CONF_DIR": str(tmp_path / "conf")},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert cluster.executors_started() == 2
    found = json.loads(done.stdout)
    assert found["said"] == "ok: nothing was lost, doubled, torn, reordered or left open"
    assert found["verdict"]["rows_in"] == found["verdict"]["rows_out"] == ROWS
    assert found["restarts"] >= found["faults"]["kill-driver"] >= 1
    assert found["left"] == []
    logs = "".join(path.read_text() for path in (tmp_path / "events").glob("*/events_*"))
    assert set(re.findall('"spark.planted":"([^"]*)"', logs)) == {"by the command"}
