"""A standalone cluster as people run it: master, worker, executors in processes of their own."""

import json
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

import pyspark
import pytest
from confluent_kafka import Producer
from support.readers import values

from twophase.embedded.ports import free_ports

QUERY = Path(__file__).parent / "query.py"
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
ROWS = 3_000
START_S = 60.0


@contextmanager
def daemon(folder, *arguments):
    """Run a part of Spark until the end of the test; what it says goes to a file."""
    folder.mkdir()
    settings = {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_NO_DAEMONIZE": "1",
    }
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(
            [str(SPARK_CLASS), *arguments],
            stdout=said,
            stderr=subprocess.STDOUT,
            env=os.environ | settings,
            cwd=folder,
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(20)


def wait_for_port(port, process):
    """Wait until something listens there."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        assert process.poll() is None
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"nothing listens on port {port}")


@pytest.fixture
def master(tmp_path):
    """A master and a worker of two cores; the address for a session."""
    port, *others = free_ports(4)
    url = f"spark://127.0.0.1:{port}"
    here = ("--host", "127.0.0.1", "--port")
    with ExitStack() as stack:
        name = "org.apache.spark.deploy.master.Master"
        ui = ("--webui-port", str(others[0]))
        process = stack.enter_context(daemon(tmp_path / "master", name, *here, str(port), *ui))
        wait_for_port(port, process)
        name = "org.apache.spark.deploy.worker.Worker"
        own = (str(others[1]), "--webui-port", str(others[2]))
        room = ("--cores", "2", "--memory", "2g", "--work-dir", str(tmp_path / "work"))
        stack.enter_context(daemon(tmp_path / "worker", name, *here, *own, *room, url))
        yield url


@pytest.mark.long
@pytest.mark.timeout(300)
def test_an_executor_of_a_cluster_is_killed(master, kafka, make_topic, tmp_path):
    """Every row once, and the executor that died was a process of the cluster."""
    source, target = make_topic(kafka, 2), make_topic(kafka, 3)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(ROWS):
        producer.produce(source, f"{number}".encode(), f"key-{number % 50}".encode())
    assert producer.flush(30) == 0
    arguments = {
        "servers": kafka.bootstrap_servers,
        "source": source,
        "target": target,
        "checkpoint": str(tmp_path / "checkpoint"),
        "sink_id": f"cluster-{uuid4().hex[:8]}",
        "rows_per_batch": ROWS // 3,
        "path": "routed",
        "master": master,
        "kill_executor": ["send", str(tmp_path / "killed")],
        "conf": {
            "spark.executor.cores": "1",
            "spark.executor.memory": "512m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        },
    }
    done = subprocess.run(
        [sys.executable, str(QUERY), json.dumps(arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "killed").exists()
    # Two executors, and one more in the place of the one that was killed.
    (application,) = (tmp_path / "work").iterdir()
    assert len(list(application.iterdir())) >= 3
    counts = Counter(int(value) for value in values(kafka.bootstrap_servers, target))
    assert counts == Counter(range(ROWS))
