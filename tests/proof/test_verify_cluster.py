"""`twophase verify --master spark://...` on a real cluster of two workers."""

import json
import os
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
        # As a machine has it from which jobs are submitted.
        defaults = "".join(f"{name} {text}\n" for name, text in cluster.settings()["conf"].items())
        (tmp_path / "conf" / "spark-defaults.conf").write_text(defaults)
        done = subprocess.run(
            [
                *(sys.executable, "-m", "twophase", "verify", "--output", "json"),
                *("--bootstrap-server", kafka.bootstrap_servers, "--master", cluster.url),
                *("--for", "30s", "--rate", str(ROWS // 30), "--faults", "kill-driver"),
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
