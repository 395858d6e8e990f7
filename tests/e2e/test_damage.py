"""What happens to a batch where a defence is left out, on a Spark that really runs tasks again.

The scenarios are in damage.py. All run in one session, because starting a cluster takes longest.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from support.readers import values
from support.rows import blocks, named
from support.writing import send_all

from twophase.kafka.identity import TopicPartition
from twophase.kafka.options import KafkaOptions
from twophase.kafka.sender import Sender
from twophase.kafka.transactions import Transactions
from twophase.kafka.wire import Wire

PROGRAM = Path(__file__).parent / "damage.py"
ROWS = 600
SCENARIOS = ("noticed", "checked", "trusted", "from_shuffle", "worker_lost", "executor_lost")


@dataclass(frozen=True)
class Seen:
    """What one scenario left behind: the rows that a reader finds, and the notes of its tasks."""

    lost: int
    doubled: int
    total: int
    notes: tuple[str, ...]
    acknowledged: int | None
    error: str | None

    @property
    def right(self):
        """Whether every row is there once, and nothing was raised."""
        return (self.error, self.total, self.lost, self.doubled) == (None, ROWS, 0, 0)

    def parts(self, kind):
        """Return the notes of one kind of task: kind, task, attempt and so on."""
        return [note.split("-") for note in self.notes if note.startswith(f"{kind}-")]

    def count(self, kind, task):
        """Return how often a task was started."""
        return sum(1 for parts in self.parts(kind) if int(parts[1]) == task)

    def first_starts(self):
        """Count the starts as attempt 0 of each send task under each epoch."""
        found = self.parts("send")
        assert found
        return Counter((parts[1], parts[4]) for parts in found if int(parts[2]) == 0)


@pytest.fixture(scope="module")
def seen(kafka, tmp_path_factory):
    """Run every scenario once."""
    folder, servers = tmp_path_factory.mktemp("damage"), kafka.bootstrap_servers
    topics = {name: f"{name.replace('_', '-')}-{uuid4().hex[:8]}" for name in SCENARIOS}
    admin = AdminClient({"bootstrap.servers": servers})
    for made in admin.create_topics([NewTopic(name, 2) for name in topics.values()]).values():
        made.result(30)
    paths = (str(PROGRAM.parents[1]), os.environ.get("PYTHONPATH"))
    arguments = json.dumps({"servers": servers, "folder": str(folder), "scenarios": topics})
    done = subprocess.run(
        [sys.executable, str(PROGRAM), arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=270,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)},
    )
    assert done.returncode == 0, done.stderr[-5000:]
    said = json.loads(done.stdout.splitlines()[-1])
    return {name: _seen(servers, topics[name], folder / name, said[name]) for name in SCENARIOS}


def _seen(servers, topic, folder, said):
    found = Counter(int(value[:6]) for value in values(servers, topic))
    return Seen(
        lost=ROWS - len(found),
        doubled=sum(1 for count in found.values() if count > 1),
        total=sum(found.values()),
        notes=tuple(sorted(path.name for path in folder.iterdir())),
        acknowledged=said.get("rows"),
        error=said.get("error"),
    )


# Starting a cluster and hurting it six times takes more than a minute.
pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


def test_two_versions_of_a_batch_are_not_sent(seen):
    """One encode task ran again over rows in another order: the batch is computed anew, right."""
    found = seen["checked"]
    assert found.right, found.error
    # Task 0 ran in the first try, again for its lost output, and in the second try; task 1 once in
    # each: Spark has really run one encode task of two again.
    assert [found.count("encode", task) for task in (0, 1)] == [3, 2]


def test_without_the_check_rows_are_lost_and_doubled(seen):
    """The same with a driver that trusts the blocks: lost and doubled rows, every count right."""
    found = seen["trusted"]
    assert found.total == ROWS
    assert found.lost == found.doubled > 0


def test_a_job_that_spark_gives_up_is_computed_anew(seen):
    """Spark 4.1 and later may notice the second version itself and fail the job: not the query."""
    found = seen["noticed"]
    assert found.right, found.error


def test_a_send_that_reads_a_shuffle_has_two_live_senders(seen):
    """After a fetch failure a send task starts again as attempt 0 while the first still sends.

    All rows are acknowledged to Spark, and some of them are not in the topic.
    """
    found = seen["from_shuffle"]
    assert [parts[1:3] for parts in found.parts("send") if parts[1] == "0"] == [["0", "0"]] * 2
    assert found.acknowledged == found.total == ROWS
    assert found.lost == found.doubled > 0


def test_a_send_from_materialised_blocks_has_one_sender(seen):
    """A send task whose executor is killed starts no second sender under the same epoch."""
    found = seen["executor_lost"]
    assert "killed" in found.notes
    assert found.right, found.error
    assert all(count == 1 for count in found.first_starts().values())


def test_a_second_attempt_of_a_send_task_is_refused(seen):
    """Its Python worker is killed: Spark starts attempt 1, which sends nothing; the driver does."""
    found = seen["worker_lost"]
    assert found.right, found.error
    assert all(count == 1 for count in found.first_starts().values())
    again = [parts for parts in found.parts("send") if int(parts[2]) > 0]
    assert again
    # Refused under the first epoch; what was sent in its place has another.
    assert len({parts[4] for parts in again}) == 1
    assert len({parts[4] for parts in found.parts("send")}) == 2


def test_two_live_senders_of_one_partition(kafka, make_topic):
    """Under one identity the second one's other blocks are acknowledged and never written."""
    topic, options = make_topic(kafka), {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    with Wire(KafkaOptions.parse(options)) as wire:
        transactions = Transactions(wire)
        identity = transactions.own(f"two-{topic}")
        transactions.add_partitions(identity, [TopicPartition(topic, 0)])
        senders = [Sender(wire, identity), Sender(wire, identity)]
        first, second = (blocks(topic, named(name, 10)) for name in ("one", "two"))
        (done,) = send_all(senders[0], first)
        (done_again,) = send_all(senders[1], second)
        transactions.commit(identity)
    assert done.records == done_again.records == 10
    assert values(kafka.bootstrap_servers, topic) == named("one", 10)
