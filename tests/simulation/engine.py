"""The simulated Spark as an engine of a batch: encodes, and sends to the simulated broker."""

from simulation.broker import CONCURRENT, FENCED, OK, STALE
from simulation.spark import materialise
from simulation.wire import MOVED

from twophase.commit.manifest import Fault
from twophase.commit.summary import PartitionSummary, Summary, digest
from twophase.errors import EpochStale, InvalidState, StoreUnavailable
from twophase.kafka.identity import TopicPartition
from twophase.kafka.transactions import Transactions
from twophase.sink import BlocksGone

ASKS_MAX = 6
AGAIN = (None, CONCURRENT, MOVED)
REFUSALS = {STALE: EpochStale, FENCED: EpochStale}


class Engine:
    """The rows of one batch."""

    def __init__(self, process, batch, rows):
        self.process, self.faults = process, process.history.faults
        self.batch, self.rows = batch, rows
        self.tag = (batch.owner, batch.number, f"{rows.start}-{rows.stop}")
        self.attempts = 0
        self.blocks = None

    def execute(self):
        self.process.step()

    def prepare(self, _attempt):
        self.process.step()
        self.blocks = materialise(self.rows, self.attempts, rerun=self.faults.rerun())
        self.attempts += 2
        found = self.checked()
        if isinstance(found, Fault):
            raise BlocksGone(found.reason)
        return found

    def checked(self):
        """What the blocks hold, if they are one whole version."""
        return self.blocks.check()

    def send(self, identity, summary):
        if self.faults.blocks_lost():
            raise BlocksGone("an executor is gone")
        where = [found.partition for found in summary.partitions]
        places = [TopicPartition(found.topic, found.partition) for found in summary.partitions]
        Transactions(self.process.wire).add_partitions(identity, places)
        sent = []
        try:
            for partition in where:
                if self.faults.torn_sender():
                    wrong = materialise(self.rows, self.attempts + 1).blocks[partition]
                    self.send_task(identity, partition, wrong[:1])
                    if not self.lets_retry():
                        raise StoreUnavailable("a send task was started again")
                blocks = self.blocks.blocks[partition]
                self.send_task(identity, partition, blocks)
                sent.append(summed(partition, blocks))
        finally:
            if not self.process.dead:
                self.process.sending = []
        return Summary(tuple(sent))

    def confirm(self):
        """Topics are not made anew here."""

    def send_task(self, identity, partition, blocks):
        """One send task: its blocks in order, each until it is acknowledged."""
        sequence, calls = 0, []
        for block in blocks:
            key = (identity.producer_id, identity.epoch)
            calls.append(("produce", key, partition, sequence, (block.rows, self.tag)))
            sequence += len(block.rows)
        # What a killed driver's executors still send.
        self.process.sending = list(calls)
        for call in calls:
            self.produce(call)
            self.process.sending.pop(0)

    def produce(self, call):
        for _ in range(ASKS_MAX):
            answer = self.process.ask(call)
            if answer is OK:
                return
            if answer not in AGAIN:
                raise REFUSALS.get(answer, InvalidState)(answer)
        raise StoreUnavailable("no answer")

    def lets_retry(self):
        """Whether a send task that was started again may send."""
        return False


def summed(partition, blocks):
    """What a send task reports of what it sent."""
    labels = [block.label for block in blocks]
    return PartitionSummary(
        "topic",
        partition,
        len(labels),
        sum(label.rows for label in labels),
        sum(label.bytes for label in labels),
        digest(label.checksum for label in labels),
    )
