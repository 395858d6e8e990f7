"""Clusters that a proof may hurt: Spark's own processes, brokers of three, and trials on them."""

import os
import socket
import subprocess
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
from confluent_kafka import Consumer, KafkaError, TopicPartition
from support.readers import partitions, wait_until_ended

from twophase.embedded.ports import free_ports
from twophase.verify.history import HistoryFile
from twophase.verify.rows import Input
from twophase.verify.source import Source
from twophase.verify.supervisor import Supervisor
from twophase.verify.trial import Trial

PROGRAM = (str(Path(__file__).parent / "cluster_query.py"),)
QUICK_FAILOVER = {"broker.session.timeout.ms": 3_000, "broker.heartbeat.interval.ms": 500}
START_S = 90.0
RUN_S = 240.0
_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_DEPLOY = "org.apache.spark.deploy"


class Keyless(Input):
    """Rows whose key a query drops: each is known by its value alone, and has no order to keep."""

    def __init__(self, name, rows):
        super().__init__(name, rows, keys=rows)

    def identify(self, _key, value):
        number = int(value.split(b",", 2)[1].rpartition(b":")[2])
        return super().identify(self.key(number), value)


class ClusterTrial(Trial):
    """A trial whose query runs under a supervisor, judged by the readers of two libraries."""

    def __init__(self, source, folder, **settings):
        super().__init__(
            source, folder, program=PROGRAM, **{"options": {"path": "routed"}, **settings}
        )
        self.supervisor = Supervisor(self)
        self.filled = 0

    def fill(self, rows):
        """Write so many more rows to the source."""
        self.source.fill(self.filled, self.filled + rows)
        self.filled += rows

    def finish(self):
        """Let the query run until all rows are written, and end it."""
        self.supervisor.wait_until(self.finished, RUN_S)
        self.driver.end()

    def judged(self):
        """The verdict; the final reader is of another library."""
        return self.verdict(lambda: streamed(self.source.servers, self.target))

    def check(self):
        """Each row once, each key in order, no batch torn, nothing left open, all of it checked."""
        verdict = self.judged()
        assert verdict.not_checked == ()
        assert verdict.ok, verdict.findings
        assert verdict.rows_out == self.source.input.rows
        return verdict


@contextmanager
def cluster_trial(brokers, folder, *, rows, fill=None, kind=Input, **settings):
    """Begin a trial: the source has its rows, or the first of them, and a reader runs."""
    with ExitStack() as stack:
        history = stack.enter_context(HistoryFile(folder / "history.jsonl"))
        source = stack.enter_context(Source(brokers.bootstrap_servers, rows, history, kind))
        trial = stack.enter_context(ClusterTrial(source, folder / "q", **settings))
        trial.fill(rows if fill is None else fill)
        yield trial


def streamed(bootstrap_servers, topic, timeout_s=900.0):
    """Yield every row that a read_committed reader of librdkafka sees, one by one."""
    wait_until_ended(bootstrap_servers)
    settings = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": "reader",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "check.crcs": True,
        "fetch.wait.max.ms": 20,
    }
    consumer, ended, deadline = Consumer(settings), set(), time.monotonic() + timeout_s
    count = partitions(bootstrap_servers, topic)
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(count)])
        while len(ended) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic}: {count - len(ended)} partitions did not end in time")
            for message in consumer.consume(1_000, timeout=0.2):
                if message.error() is None:
                    yield _Read(message)
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                elif not message.error().retriable():
                    raise RuntimeError(str(message.error()))
    finally:
        consumer.close()


class _Read:
    """One row as the checker takes it."""

    def __init__(self, message):
        self.partition, self.offset = message.partition(), message.offset()
        self.key, self.value = message.key(), message.value()


class SparkCluster:
    """A master and workers of one core each, in processes of their own, on loopback addresses."""

    def __init__(self, folder, workers):
        self.folder, self.workers = folder, workers
        self.local = folder / "local"
        self._stack = ExitStack()
        port, ui = free_ports(2)
        self.url = f"spark://127.0.0.1:{port}"
        self._address = ("127.0.0.1", port, ui)

    def __enter__(self):
        host, port, ui = self._address
        where = ("--host", host, "--port", str(port), "--webui-port", str(ui))
        master = self._daemon("master", host, f"{_DEPLOY}.master.Master", *where)
        _wait_for_port(host, port, master)
        places = [(f"127.0.0.{at + 1}", *free_ports(2)) for at in range(self.workers)]
        started = []
        for host, port, ui in places:
            where = ("--host", host, "--port", str(port), "--webui-port", str(ui))
            room = ("--cores", "1", "--memory", "700m", "--work-dir", str(self.folder / "work"))
            name = f"worker-{host}"
            arguments = (f"{_DEPLOY}.worker.Worker", *where, *room, self.url)
            started.append((host, port, self._daemon(name, host, *arguments)))
        for place in started:
            _wait_for_port(*place)
        return self

    def __exit__(self, *_):
        self._stack.close()

    def settings(self, executors=2, **conf):
        """The settings of a session with so many executors, each in a JVM of its own."""
        return {
            "master": self.url,
            "conf": {
                "spark.executor.cores": "1",
                "spark.executor.memory": "512m",
                "spark.cores.max": str(executors),
                # The session begins when all of them are there.
                "spark.scheduler.minRegisteredResourcesRatio": "1.0",
                "spark.scheduler.maxRegisteredResourcesWaitingTime": "90s",
                "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.sql.shuffle.partitions": str(executors),
                "spark.sql.adaptive.enabled": "false",
                **conf,
            },
        }

    def executors_started(self):
        """How many executors the last application has had."""
        last = max((self.folder / "work").iterdir(), key=lambda path: path.name)
        return len(list(last.iterdir()))

    def _daemon(self, name, host, *arguments):
        """Run a part of Spark until the end; what it says goes to a file."""
        folder = self.folder / name
        folder.mkdir(parents=True)
        settings = {
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": "128m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "SPARK_LOCAL_DIRS": str(self.local),
            "SPARK_NO_DAEMONIZE": "1",
        }
        with (folder / "said").open("wb") as said:
            process = subprocess.Popen(
                [str(_SPARK_CLASS), *arguments],
                stdout=said,
                stderr=subprocess.STDOUT,
                env=os.environ | settings,
                cwd=folder,
            )
        self._stack.callback(_end, process)
        return process


def _end(process):
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(20)


def _wait_for_port(host, port, process):
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        assert process.poll() is None
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex((host, port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"nothing listens at {host}:{port}")
