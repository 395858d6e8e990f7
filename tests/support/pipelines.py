"""Pipelines from files, run by the real command in a process of its own, or in this one."""

import json
import signal
import subprocess
import sys
from uuid import uuid4

import yaml
from confluent_kafka import Producer

from twophase.pipeline.frames import make_views
from twophase.pipeline.load import load_pipeline
from twophase.pipeline.runner import Runner
from twophase.pipeline.stopping import Stop

COMMAND = [sys.executable, "-m", "twophase", "run"]
# Short runs on few cores: compiling and collecting in parallel costs more than it brings.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
QUICK = f"""spark:
  master: local[2]
  conf:
    spark.sql.shuffle.partitions: 2
    spark.driver.extraJavaOptions: {QUICK_JAVA}
"""


def quick(conf):
    """Return the section of such a run with more settings."""
    spark = yaml.safe_load(QUICK)["spark"]
    return {**spark, "conf": {**spark["conf"], **conf}}


# By the user's own code beside the file.
_SLOW = """\
import time


def slowly(frame):
    def wait(batches):
        for batch in batches:
            late = batch.num_rows and int(batch.column("value")[0].as_py()) >= {first}
            time.sleep({seconds} if late else 0)
            yield batch

    return frame.mapInArrow(wait, frame.schema)
"""


def kafka_to_kafka(folder, servers, source, target, *, rows_per_batch=100, more=""):
    """Write a file that doubles the numbers of a topic; return its path."""
    path = folder / "p.yaml"
    path.write_text(f"""\
kafka:
  kafka.bootstrap.servers: {servers}
source:
  kafka:
    topic: {source}
    max_rows_per_batch: {rows_per_batch}
steps:
  - view: numbers
    sql: SELECT key, CAST(CAST(value AS STRING) AS BIGINT) AS number FROM source
  - view: doubled
    sql: |
      SELECT key, CAST(2 * number AS STRING) AS value
      FROM numbers
sinks:
  - kafka:
      sink_id: run-{uuid4().hex[:8]}
      topic: {target}
checkpoint: checkpoint
{QUICK}{more}""")
    return path


def slowed(path, seconds, *, first=0):
    """Let every batch take so long whose first doubled number is not below `first`."""
    (path.parent / "slow_step.py").write_text(_SLOW.format(seconds=seconds, first=first))
    if "slow_step" not in path.read_text():
        step = "  - view: late\n    python: slow_step:slowly\nsinks:"
        path.write_text(path.read_text().replace("sinks:", step))
    return path


def with_dead_letters(path, target, dead):
    """Let the row 13 name a partition that is not there, and be a dead letter."""
    text = path.read_text().replace("AS value\n", "AS value, IF(number = 13, 7, 0) AS partition\n")
    letters = f"topic: {target}\n      on_reject: dead-letter\n      dead_letter_topic: {dead}\n"
    path.write_text(text.replace(f"topic: {target}\n", letters))
    return path


def fill(servers, topic, numbers):
    """Write numbers to a topic."""
    producer = Producer({"bootstrap.servers": servers})
    for number in numbers:
        producer.produce(topic, value=str(number), key=str(number))
    assert producer.flush(30) == 0


def run_here(path, session, stop=None, tell=None, *, available_now=True):
    """Run a file in this process's session; return how it ended and what it told."""
    told = []
    loaded = load_pipeline(path)
    frame = make_views(loaded, session)

    def both(event):
        told.append(event)
        if tell is not None:
            tell(event)

    runner = Runner(loaded, frame, stop or Stop(), both, available_now=available_now)
    return runner.run(), told


def begin(path, *arguments):
    """Begin the command; what it tells comes as JSON."""
    return subprocess.Popen(
        [*COMMAND, str(path), "--output", "json", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process, timeout_s=120):
    """Wait for the end; return exit code, what was told, and stderr."""
    out, err = process.communicate(timeout=timeout_s)
    assert "Traceback" not in err, err
    return process.returncode, [json.loads(line) for line in out.splitlines()], err


def until(process, wanted):
    """Read what is told until something is as wanted; return it all."""
    told = []
    while not told or not wanted(told[-1]):
        line = process.stdout.readline()
        assert line, process.stderr.read()
        told.append(json.loads(line))
    return told


def stop(process):
    """Ask for the end, as a service manager does."""
    process.send_signal(signal.SIGTERM)
