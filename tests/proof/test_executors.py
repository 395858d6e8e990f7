"""Executors in JVMs of their own, on a standalone cluster: killed, robbed of their disks, slow."""

from collections import Counter

import pytest

from .cluster import RUN_S, Keyless, SparkCluster, cluster_trial

ROWS = 3_000
HOSTS = 6
SLOW_S = 12.0
# Routed partitions are read in order, and not first where most of their blocks lie.
IN_ORDER = {"spark.shuffle.reduceLocality.enabled": "false"}
# Spark looks ten times a second for tasks that take longer than half of the others together.
EAGER = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "100ms",
}

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory):
    """A master and six workers on six loopback addresses: Spark takes them for six hosts."""
    with SparkCluster(tmp_path_factory.mktemp("spark"), HOSTS) as cluster:
        yield cluster


@pytest.fixture
def notes(tmp_path):
    """The folder in which tasks note what they did."""
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


def attempts(notes, kind="send"):
    """How often each task was started, by routed partition and attempt number."""
    return Counter(tuple(path.name.split("-")[1:3]) for path in notes.glob(f"{kind}-*"))


@pytest.mark.parametrize("moment", ["encode", "between", "send"])
def test_an_executor_is_killed(moment, spark_cluster, kafka, notes, tmp_path):
    """Expected: lost blocks are computed again, a broken send is aborted and repeated; no restart.

    In the middle of an encode task, after all blocks are made and before they are sent, or in the
    middle of a send task.
    """
    with cluster_trial(
        kafka,
        tmp_path,
        rows=ROWS,
        rows_per_batch=ROWS // 3,
        notes=str(notes),
        harm={"kill": moment},
        **spark_cluster.settings(),
    ) as trial:
        trial.finish()
        assert (notes / "killed").exists()
        # Two executors, and one more in the place of the one that was killed.
        assert spark_cluster.executors_started() == 3
        assert trial.supervisor.starts == 1
        trial.check()


def test_a_fetch_failure_over_rows_in_no_order(spark_cluster, kafka, notes, tmp_path):
    """Expected: the driver sees that two versions of the batch have come together, and starts anew.

    The rows come behind a shuffle in another order in each attempt, and without keys. A part of an
    encode task's output is lost: Spark sees a fetch failure and runs that task alone again, while
    the rest of its first output is in use already.
    """
    with cluster_trial(
        kafka,
        tmp_path,
        rows=ROWS,
        kind=Keyless,
        rows_per_batch=ROWS,
        notes=str(notes),
        harm={"disorder": str(spark_cluster.local)},
        **spark_cluster.settings(**IN_ORDER),
    ) as trial:
        trial.finish()
        trial.check()
        assert (notes / "destroyed").exists()
        ran = Counter(path.name.split("-")[1] for path in notes.glob("encode-*"))
        # Task 0 again by Spark, and then both by the driver.
        assert ran == {"0": 3, "1": 2}
        assert trial.supervisor.starts == 1


def slow(spark_cluster, notes, **harm):
    """The settings of a query with six executors, speculation, and one slow sender."""
    return {
        "rows_per_batch": 2 * ROWS,
        "notes": str(notes),
        "harm": {"slow_s": SLOW_S, **harm},
        **spark_cluster.settings(HOSTS, **EAGER),
    }


def test_a_slow_sender_is_not_speculated(spark_cluster, kafka, notes, tmp_path):
    """Expected: with speculation on and five idle hosts, no send task is started twice."""
    with cluster_trial(kafka, tmp_path, rows=ROWS, **slow(spark_cluster, notes)) as trial:
        trial.finish()
        assert spark_cluster.executors_started() == HOSTS
        started = attempts(notes)
        # One batch, four output partitions, four senders, all of them first attempts.
        assert started == {(str(routed), "0"): 1 for routed in range(4)}
        trial.check()


def test_without_the_barrier_a_slow_sender_is_speculated(spark_cluster, kafka, notes, tmp_path):
    """Expected without the defence: Spark speculates until it gives up, and the query ends."""
    settings = slow(spark_cluster, notes, barrier=False)
    with cluster_trial(kafka, tmp_path, rows=ROWS, **settings) as trial:
        trial.driver.start()
        assert trial.driver.wait(RUN_S) == 1
        assert "failed 4 times" in (trial.folder / "driver.log").read_text()
        again = {attempt for _, attempt in attempts(notes)}
        assert again > {"0"}
        assert trial.reader.rows == 0
