"""Task scope on a real Spark: a sink of one's own, once, whatever dies."""

import json
import os
import re
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from uuid import uuid4

import pytest
from parquet_folder import ParquetFolder
from support.folders import ids_in
from support.streams import Files, forget_last_commit, run

from twophase import TaskSink, TwoPhaseCommitSink
from twophase.errors import ConfigurationError, LogCorrupt
from twophase.log.local_folder import LocalFolder
from twophase.spark import task_sink
from twophase.spark.log_folder import HadoopFolder, folder_at

EXAMPLE = Path(__file__).parents[2] / "examples" / "parquet_folder.py"
QUERY = Path(__file__).parent / "task_query.py"
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"


def staged(folder):
    """What was begun and neither committed nor ended."""
    return [path.name for path in folder.glob(".*")]


@pytest.fixture(autouse=True)
def _example_on_the_executors(spark):
    """As spark-submit --py-files does it."""
    spark.sparkContext.addPyFile(str(EXAMPLE))


@pytest.fixture
def files(spark, tmp_path):
    """A source of three batches."""
    found = Files(spark, tmp_path / "source", "id long")
    for number in range(3):
        found.add(*({"id": 10 * number + each} for each in range(5)))
    return found


EXPECTED = [10 * number + each for number in range(3) for each in range(5)]


@pytest.fixture
def sink_of(tmp_path):
    """Make a sink to the folder `target`."""

    def make(**more):
        more = {"sink_id": "folder"} | more
        return TaskSink(ParquetFolder(tmp_path / "target"), **more)

    return make


def test_a_query(files, sink_of, tmp_path):
    """Each row once; a batch that Spark asks for again is skipped, and so after a restart."""
    records = []
    run(files.frame(), sink_of(hooks=[records.append]), tmp_path / "check")
    assert ids_in(tmp_path / "target") == EXPECTED
    assert [(each.outcome, each.rows, each.path) for each in records] == [
        ("committed", 5, "task")
    ] * 3
    forget_last_commit(tmp_path / "check")
    files.add({"id": 100})
    run(files.frame(), sink_of(hooks=[records.append]), tmp_path / "check")
    assert [each.outcome for each in records[3:]] == ["skipped", "committed"]
    assert ids_in(tmp_path / "target") == [*EXPECTED, 100]
    assert staged(tmp_path / "target") == []


def test_the_log_lies_in_the_checkpoint(files, sink_of, tmp_path):
    """For its owner only, trimmed, and as large as a few files."""
    run(files.frame(), sink_of(), tmp_path / "check")
    log = tmp_path / "check" / "twophase" / "folder"
    found = {path for path in log.iterdir() if not path.name.startswith(".")}
    assert {path.name.split("-")[0] for path in found} == {"epoch", "batch", "done"}
    assert len(found) <= 6
    assert_for_its_owner(log)


def assert_for_its_owner(log):
    """Nobody else reads a file of the log, nor its folder."""
    assert stat.S_IMODE(log.stat().st_mode) == 0o700
    found = [path for path in log.iterdir() if not path.name.startswith(".")]
    assert found
    assert {stat.S_IMODE(path.stat().st_mode) for path in found} == {0o600}


@pytest.fixture(params=[None, "FileSystemBased"], ids=["default", "filesystem"])
def manager(request, spark):
    """Spark's own choice of a manager of checkpoint files, and one that a user may make."""
    # The cached file system of this process is one that heeds nobody's umask.
    spark.read.text(str(Path(__file__))).count()
    if request.param is None:
        yield "FileContextBasedCheckpointFileManager"
        return
    name = f"{request.param}CheckpointFileManager"
    spark.conf.set(MANAGER, f"org.apache.spark.sql.execution.streaming.checkpointing.{name}")
    yield name
    spark.conf.unset(MANAGER)


def test_hadoops_files_are_for_their_owner_only(spark, manager, tmp_path):
    """Also where the file system is one that Spark has made before, by other settings."""
    log = tmp_path / "deep" / "log"
    before = os.umask(0o022)
    try:
        folder = HadoopFolder(spark, log.as_uri())
        assert folder._files.getClass().getSimpleName() == manager
        assert folder.create("x", b"1")
        assert not folder.create("x", b"2")
        assert folder.create("y", b"2")
    finally:
        os.umask(before)
    assert_for_its_owner(log)
    assert (folder.read("x"), folder.read("y"), folder.read("z")) == (b"1", b"2", None)
    # A folder that is there already is the user's own.
    log.chmod(0o750)
    assert HadoopFolder(spark, log.as_uri()).create("z", b"3")
    assert stat.S_IMODE(log.stat().st_mode) == 0o750


def test_of_two_threads_one_creates_a_file(spark, manager, tmp_path):
    """Two drivers of one process, each with a folder of its own; the file is the winner's."""
    folders = [HadoopFolder(spark, (tmp_path / "log").as_uri()) for _ in range(2)]
    together = Barrier(2)

    def create(number, name):
        together.wait(60)
        return folders[number].create(name, bytes([number]))

    # Without a lock both succeed in 3 % of the turns: Spark looks, and renames only then.
    with ThreadPoolExecutor(2) as pool:
        for turn in range(100 if manager.startswith("FileSystem") else 30):
            won = list(pool.map(create, range(2), [f"slot-{turn}"] * 2))
            assert sorted(won) == [False, True]
            assert folders[0].read(f"slot-{turn}") == bytes([won.index(True)])


def test_the_log_goes_on_where_hadoop_began_it(files, sink_of, tmp_path, monkeypatch):
    """A log that Spark's manager of checkpoints has written is read, gone on with, and back."""
    for number in range(4):
        with monkeypatch.context() as patched:
            if number % 2 == 0:
                patched.setattr(task_sink, "folder_at", HadoopFolder)
            files.add({"id": 100 + number})
            run(files.frame(), sink_of(), tmp_path / "check")
            assert_for_its_owner(tmp_path / "check" / "twophase" / "folder")
    forget_last_commit(tmp_path / "check")
    run(files.frame(), sink_of(), tmp_path / "check")
    assert ids_in(tmp_path / "target") == [*EXPECTED, 100, 101, 102, 103]


def test_which_folder_it_is(spark, tmp_path):
    """The system's own links on a local disk, unless the user chose a manager."""
    assert isinstance(folder_at(spark, (tmp_path / "a b").as_uri()), LocalFolder)
    assert isinstance(folder_at(spark, str(tmp_path / "log")), LocalFolder)
    manager = "org.apache.spark.sql.execution.streaming.checkpointing"
    spark.conf.set(MANAGER, f"{manager}.FileSystemBasedCheckpointFileManager")
    try:
        assert isinstance(folder_at(spark, str(tmp_path / "log")), HadoopFolder)
    finally:
        spark.conf.unset(MANAGER)
    assert [each.name for each in tmp_path.rglob("*") if each.is_file()] == []


def test_a_damaged_log_stops_the_query(files, sink_of, tmp_path):
    """A decision that is cut short is not taken for one that is not there."""
    run(files.frame(), sink_of(), tmp_path / "check")
    forget_last_commit(tmp_path / "check")
    log = tmp_path / "check" / "twophase" / "folder"
    last = max(path for path in log.iterdir() if path.name.startswith("batch-"))
    last.write_bytes(last.read_bytes()[:-7])
    with pytest.raises(Exception, match=LogCorrupt.code):
        run(files.frame(), sink_of(), tmp_path / "check")
    assert ids_in(tmp_path / "target") == EXPECTED


def test_a_batch_job(spark, sink_of, tmp_path):
    """Once for each run id; the log is where the user says, since there is no checkpoint."""
    sink = sink_of(decisions=str(tmp_path / "log"))
    frame = spark.range(0, 20, 1, 4)
    assert sink.write(frame, run_id="monday").rows == 20
    assert sink.write(frame, run_id="monday").outcome == "skipped"
    assert sink_of(decisions=str(tmp_path / "log")).write(frame, run_id="monday").rows == 0
    assert ids_in(tmp_path / "target") == list(range(20))
    assert sink.write(frame, run_id="tuesday").rows == 20
    with pytest.raises(ConfigurationError, match="give the sink decisions="):
        sink_of().write(frame, run_id="monday")


def test_an_empty_batch(spark, sink_of, tmp_path):
    """A task without rows begins nothing, and a batch without rows is done all the same."""
    sink = sink_of(decisions=str(tmp_path / "log"))
    assert sink.write(spark.range(0), run_id="empty").outcome == "committed"
    assert not (tmp_path / "target").exists()


@pytest.mark.long
def test_rows_that_are_weighed_after_all_have_all_the_time(spark, tmp_path):
    """A heavy row ends the first run of the tasks; what that took is not held against the next."""

    class Limited(ParquetFolder):
        time_limit_s = 12.0

        def begin(self, attempt):
            time.sleep(7)
            return super().begin(attempt)

    began_s = time.monotonic()
    sink = TaskSink(Limited(tmp_path / "target"), sink_id="s", decisions=str(tmp_path / "log"))
    text = "IF(id = 15000, repeat('x', 20000), '') AS text"
    frame = spark.range(20_000, numPartitions=1).selectExpr("id", text)
    assert sink.write(frame, run_id="r").rows == 20_000
    assert time.monotonic() - began_s > 14, "the tasks ran once"
    assert ids_in(tmp_path / "target") == list(range(20_000))
    assert staged(tmp_path / "target") == []


class Picky(ParquetFolder):
    """Takes one column."""

    def check(self, schema):
        if schema.names != ["id"]:
            raise ConfigurationError(f"the columns are {schema.names}; allowed is id")


def test_columns_are_checked_before_anything(spark, tmp_path):
    """A schema that does not fit starts nothing and leaves nothing."""
    sink = TaskSink(Picky(tmp_path / "target"), sink_id="s", decisions=str(tmp_path / "log"))
    with pytest.raises(ConfigurationError, match=r"columns are \['other'\]; allowed is id"):
        sink.write(spark.range(3).withColumnRenamed("id", "other"), run_id="r")
    assert list(tmp_path.iterdir()) == []


def test_a_committable_that_is_no_json(spark, tmp_path):
    """Is refused with the method's name, and nothing is left of it."""

    class Wrong(ParquetFolder):
        def prepare(self, staging):
            return {"staging": staging}

    sink = TaskSink(Wrong(tmp_path / "target"), sink_id="s", decisions=str(tmp_path / "log"))
    with pytest.raises(ConfigurationError, match=r"Wrong\.prepare returned a committable"):
        sink.write(spark.range(3), run_id="r")
    assert staged(tmp_path / "target") == []


def test_what_is_no_sink():
    """One sentence instead of an error of the first batch."""
    with pytest.raises(ConfigurationError, match="sink is str; allowed is an object of a class"):
        TaskSink("folder", sink_id="s")


def test_the_base_class_is_small():
    """A sink of one's own is under 50 lines."""
    assert len(EXAMPLE.read_text().splitlines()) < 50
    assert issubclass(ParquetFolder, TwoPhaseCommitSink)


class Killed:
    """One query over a folder of files, killed and started again."""

    def __init__(self, folder):
        self.target = folder / "target"
        self.arguments = {
            "source": str(folder / "source"),
            "target": str(self.target),
            "checkpoint": str(folder / "check"),
            "master": "local[2,3]",
            "sink_id": f"killed-{uuid4().hex[:8]}",
        }

    def run(self, **more):
        """Run until the end; return its exit code and what it said."""
        done = subprocess.run(
            [sys.executable, str(QUERY), json.dumps(self.arguments | more)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("files")
def test_killed_between_two_commits(tmp_path):
    """After the decision and its first commit; and a worker that dies after it has prepared."""
    killed = Killed(tmp_path)
    # Four steps take an epoch; a look, a void slot and a look at later ones, a recovery; two
    # decide; the first commit.
    code, said = killed.run(die_at=11, after=True)
    assert code == -9, said
    assert 0 < len(ids_in(killed.target)) < 5
    code, said = killed.run(worker_dies=str(tmp_path / "died"))
    assert code == 0, said
    assert (tmp_path / "died").exists()
    assert ids_in(killed.target) == EXPECTED
    assert staged(killed.target) == []


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_at_each_step(tmp_path, after):
    """Whichever step kills the driver of a real Spark, the next one brings each row in once."""
    code, said = Killed(tmp_path).run()
    assert code == 0, said
    steps = int(re.search(r"steps (\d+)", said)[1])
    assert steps > 20
    for at in range(1, steps // 2 + 1):
        folder = tmp_path / f"at-{at}"
        folder.mkdir()
        (folder / "source").symlink_to(tmp_path / "source")
        killed = Killed(folder)
        code, said = killed.run(die_at=at, after=after)
        assert code == -9, said
        code, said = killed.run()
        assert code == 0, said
        assert ids_in(killed.target) == EXPECTED
        assert staged(killed.target) == []
