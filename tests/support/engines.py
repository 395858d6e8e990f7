"""An engine without Spark: rows in memory, blocks in memory, a real sender."""

from support.rows import blocks
from twophase.kafka.identity import TopicPartition
from twophase.kafka.sender import Sender
from twophase.kafka.summaries import confirmed, summarise
from twophase.kafka.topic_ids import TopicIds
from twophase.kafka.transactions import Transactions


class RowsEngine:
    """The rows of one batch; it counts how often its plan was executed."""

    def __init__(self, wire, topic, rows):
        self.wire, self.topic, self.rows = wire, topic, rows
        self.topics = TopicIds(wire)
        self.executed = 0
        self.sent = 0

    def execute(self):
        self.executed += 1

    def prepare(self, _attempt):
        self.executed += 1
        self.blocks = blocks(self.topic, self.rows) if self.rows else []
        return summarise(self.blocks)

    def send(self, identity, summary):
        self.sent += 1
        self.topics.remember({part.topic for part in summary.partitions})
        places = [TopicPartition(part.topic, part.partition) for part in summary.partitions]
        Transactions(self.wire).add_partitions(identity, places)
        sender = Sender(self.wire, identity)
        for block in self.blocks:
            sender.send(block)
        return confirmed(summarise(self.blocks), sender.flush())

    def confirm(self):
        self.topics.confirm()
