"""Blocks in files of this machine: gone after each batch, and harmed ones are never committed."""

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from support.readers import values
from support.streams import Files, run

from twophase.errors import CommitRejected, ConfigurationError, TwoPhaseError
from twophase.kafka import delivery
from twophase.kafka.blocks import HEADER_BYTES
from twophase.spark import local_path
from twophase.spark.kafka_sink import KafkaSink
from twophase.spark.local_path import LocalPath, large_path
from twophase.spark.path import Path as Way
from twophase.spark.routed import block_of

ROWS = 1_000
PROGRAM = Path(__file__).parent / "local_job.py"


@pytest.fixture
def topic(kafka, make_topic):
    return make_topic(kafka, partitions=3)


@pytest.fixture
def make_sink(kafka, topic):
    """Make sinks that take the path through files, however small a batch is."""

    def make(**more):
        servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
        options = servers | {"kafka.compression.type": "none"} | more
        return KafkaSink(sink_id=f"l-{topic}", topic=topic, options=options, path="local")

    return make


@pytest.fixture
def frame(spark):
    return spark.range(ROWS, numPartitions=3).selectExpr("CAST(id AS STRING) AS value")


def left(spark):
    """The folders of blocks that this session has now."""
    return list(Path(spark.sparkContext._temp_dir).glob("blocks-*"))


def expected():
    return sorted(str(number).encode() for number in range(ROWS))


def test_the_files_are_gone_after_each_batch(spark, kafka, topic, make_sink, tmp_path):
    """After the last as after the first, and only their owner can read them meanwhile."""
    files, seen, kept = Files(spark, tmp_path / "in", "v string"), [], []
    for number in range(12):
        files.add({"v": f"{number}"})
    sink = make_sink()
    send = LocalPath.send

    def looking(path, *given):
        (folder,) = left(spark)
        seen.append(folder.stat().st_mode & 0o777)
        return send(path, *given)

    def watched(batch, number):
        sink(batch, number)
        kept.append(left(spark))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalPath, "send", looking)
        run(files.frame().selectExpr("v AS value"), watched, tmp_path / "checkpoint")
    sink.close()
    assert kept == [[]] * 12
    assert seen == [0o700] * 12
    assert len(values(kafka.bootstrap_servers, topic)) == 12


def test_a_batch_that_fails_leaves_nothing(spark, frame, make_sink):
    """A row that cannot be encoded, in the last of three tasks."""
    torn = frame.selectExpr("IF(value = '999', repeat('x', 2000000), value) AS value")
    with pytest.raises(TwoPhaseError, match="the limit is"):
        make_sink().write(torn, run_id="torn")
    assert left(spark) == []


def cut(folder):
    """Take the last byte of one file."""
    file = max(folder.iterdir(), key=lambda found: found.stat().st_size)
    file.write_bytes(file.read_bytes()[:-1])


def remove(folder):
    """Take one file."""
    next(folder.iterdir()).unlink()


def remove_all(folder):
    """Take the folder, as who tidies a disk would."""
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()


@pytest.mark.parametrize("harm", [cut, remove, remove_all])
def test_files_that_are_gone_are_computed_again(harm, spark, frame, kafka, topic, make_sink):
    """Before the first send: the batch is computed a second time, and every row is there once."""
    harmed = []
    send = LocalPath.send

    def harming(path, *given):
        if not harmed:
            harmed.append(harm(left(spark)[0]))
        return send(path, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalPath, "send", harming)
        record = make_sink().write(frame, run_id="r")
    assert (record.outcome, record.rows, record.path) == ("committed", ROWS, "local")
    assert sorted(values(kafka.bootstrap_servers, topic)) == expected()
    assert left(spark) == []


def flip(folder):
    """Change a byte of a value in one file."""
    file = max(folder.iterdir(), key=lambda found: found.stat().st_size)
    data = bytearray(file.read_bytes())
    data[-2] ^= 1
    file.write_bytes(data)


def write_flipped(spark, frame, make_sink, **doubles):
    """Write the frame, with a flip before its first send."""
    send, harmed = LocalPath.send, []

    def harming(path, *given):
        if not harmed:
            harmed.append(flip(left(spark)[0]))
        return send(path, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalPath, "send", harming)
        for name, double in doubles.items():
            patch.setattr(local_path, name, double)
        return make_sink().write(frame, run_id="r")


def unchecked(folder, rows):
    """Read blocks as they lie there."""
    for row in rows:
        data = local_path.Path(folder, f"{row['task']}-{row['attempt']}").read_bytes()
        body = data[row["offset"] :][: row["bytes"] - HEADER_BYTES]
        yield block_of(row, pa.py_buffer(body))


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_flipped_byte_is_computed_again(codec, spark, frame, kafka, topic, make_sink):
    """The label's checksum tells, before the block goes out."""
    sink = partial(make_sink, **{"kafka.compression.type": codec})
    record = write_flipped(spark, frame, sink)
    assert record.outcome == "committed"
    assert record.retries > 0
    assert sorted(values(kafka.bootstrap_servers, topic)) == expected()


def test_a_block_that_is_not_checked_is_sent_and_never_committed(
    spark, frame, kafka, topic, make_sink
):
    """The second defence: the digest of what was sent is not that of what was encoded."""
    with pytest.raises(CommitRejected):
        write_flipped(spark, frame, make_sink, stored_blocks=unchecked)
    assert values(kafka.bootstrap_servers, topic) == []
    assert make_sink().write(frame, run_id="r").outcome == "committed"
    assert sorted(values(kafka.bootstrap_servers, topic)) == expected()


def test_without_either_the_flipped_byte_would_be_there(spark, frame, kafka, topic, make_sink):
    """The damage: a sender that repeats what it was told, and not what it has sent."""
    told, prepare = [], LocalPath.prepare

    def trusting(sender, blocks):
        sender.send(*blocks)
        sender.flush()
        return told[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalPath, "prepare", lambda path: told.append(prepare(path)) or told[0])
        patch.setattr(delivery, "send_all", trusting)
        doubles = {"stored_blocks": unchecked}
        record = write_flipped(spark, frame, make_sink, **doubles)
    assert record.outcome == "committed"
    found = sorted(values(kafka.bootstrap_servers, topic))
    assert len(found) == ROWS
    assert found != expected()


def test_a_folder_is_gone_while_others_still_write_to_it(tmp_path):
    """A worker that begins to write when the batch has failed finds no folder, and makes none."""
    kept = 0
    for number in range(20):
        folder = tmp_path / f"blocks-{number}"
        folder.mkdir()
        path = LocalPath(None, None, None)
        path._folder = str(folder)
        ended = threading.Event()

        def write(folder=folder, ended=ended):
            for at in range(100_000):
                if ended.is_set():
                    return
                with suppress(OSError):
                    (folder / f"{at}").touch()

        writer = threading.Thread(target=write)
        writer.start()
        path.free()
        ended.set()
        writer.join()
        kept += len(list(tmp_path.iterdir()))
    assert kept == 0


def test_jobs_side_by_side_keep_to_their_own_files(spark, frame, kafka, make_sink):
    """Four runs of one sink at once: each row four times, by four folders."""
    sink = make_sink()
    with ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(sink.write, frame, run_id=f"r-{number}") for number in range(4)]
        records = [run.result(120) for run in runs]
    assert {record.path for record in records} == {"local"}
    found = values(kafka.bootstrap_servers, sink._topic)
    assert sorted(found) == sorted(expected() * 4)
    assert left(spark) == []


def test_a_disk_that_is_full_is_named(kafka, topic, tmp_path):
    """Nothing is written to the topic, and nothing is left on the disk."""
    done = job(kafka, topic, tmp_path, rows=200_000, most_bytes=100_000)
    assert done.returncode != 0
    said = json.loads(done.stdout.splitlines()[-1])
    assert "TWOPHASE_SETUP: the blocks of a batch cannot be written to" in said["error"]
    assert "room for a batch" in said["error"]
    assert said["left"] == []
    assert values(kafka.bootstrap_servers, topic) == []


def job(kafka, topic, notes, **more):
    """Run a batch job in a process of its own."""
    arguments = {
        "servers": kafka.bootstrap_servers,
        "topic": topic,
        "sink_id": f"job-{uuid4().hex[:8]}",
        "notes": str(notes),
        **more,
    }
    return subprocess.run(
        [sys.executable, str(PROGRAM), json.dumps(arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        cwd=notes,
    )


@pytest.mark.timeout(300)
def test_workers_killed_in_mid_task_leave_no_row_twice(kafka, topic, tmp_path):
    """Each encode task's first worker is killed -9 after it wrote blocks; Spark starts it again."""
    done = job(kafka, topic, tmp_path, rows=30_000, kill=True)
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["outcome"] == "committed"
    assert len(list(tmp_path.glob("killed-*"))) == 3
    assert said["files"] == 6, "those of the killed attempts lay beside the others"
    assert said["left"] == []
    numbers = sorted(int(value) for value in values(kafka.bootstrap_servers, topic))
    assert numbers == list(range(30_000))


@pytest.mark.parametrize(
    ("master", "wish", "found"),
    [
        ("local[2]", Way.AUTO, Way.LOCAL),
        ("local", Way.AUTO, Way.LOCAL),
        ("local[*,4]", Way.LOCAL, Way.LOCAL),
        ("local[2]", Way.ROUTED, Way.ROUTED),
        ("local-cluster[2,1,1024]", Way.AUTO, Way.ROUTED),
        ("spark://127.0.0.1:7077", Way.AUTO, Way.ROUTED),
        ("k8s://https://127.0.0.1", Way.DRIVER, Way.ROUTED),
    ],
)
def test_only_a_local_master_has_one_machine(master, wish, found, frame, monkeypatch):
    """Workers of any other may have other disks than the driver."""
    monkeypatch.setattr(frame.sparkSession.sparkContext, "master", master)
    assert large_path(frame, wish) is found


def test_files_are_refused_where_machines_are_many(frame, make_sink, monkeypatch):
    """Before anything is written."""
    monkeypatch.setattr(frame.sparkSession.sparkContext, "master", "yarn")
    with pytest.raises(ConfigurationError, match="path is 'local', and the master is yarn"):
        make_sink().write(frame, run_id="r")


def test_rows_that_are_to_be_encrypted_on_disks_are_in_no_file(frame, make_sink, monkeypatch):
    """Spark encrypts what it shuffles and keeps, where it is told to; these files it does not."""
    monkeypatch.setattr(frame.sparkSession.sparkContext, "_encryption_enabled", True)
    assert large_path(frame, Way.AUTO) is Way.ROUTED
    with pytest.raises(ConfigurationError, match="blocks in files are not encrypted; leave path"):
        make_sink().write(frame, run_id="r")
