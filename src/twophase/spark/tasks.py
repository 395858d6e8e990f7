"""What runs on the executors: encode tasks, and send tasks of which none may run twice."""

import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from twophase.commit.manifest import Label, manifest_of
from twophase.commit.summary import PartitionSummary
from twophase.errors import StoreUnavailable
from twophase.kafka.counts import PartitionCounts
from twophase.kafka.identity import Identity
from twophase.kafka.options import KafkaOptions
from twophase.kafka.plan import EncodePlan, plan_for
from twophase.kafka.records import encode_stream
from twophase.kafka.sender import Sender
from twophase.kafka.summaries import Tally, checksum_of, confirmed
from twophase.spark.light import HeavyRows, unflagged
from twophase.spark.routed import Bundle, blocks_of, heavy_mark, manifest_rows
from twophase.spark.workers import connection, task_context

SENT_SCHEMA = "topic string, partition int, blocks int, rows long, bytes long, digest string"


@dataclass(frozen=True)
class EncodeTask:
    """Rows of one task to blocks, each on its way to one routed partition.

    `counts` are the partitions of `topic`. Where topics come from a column there are none, and each
    task asks for the topics that it meets: to ask for them all before would execute the plan twice.
    """

    options: KafkaOptions
    topic: str | None
    counts: Mapping[str, int]
    routed: int
    now_ms: int
    light: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield every block, then the manifest for every routed partition, also for idle ones.

        With `light` the rows are a light form; a heavy one among them ends the task with a mark.
        """
        if not self.light:
            yield from self._blocks(batches)
            return
        try:
            yield from self._blocks(unflagged(batches))
        except HeavyRows:
            yield heavy_mark()

    def _blocks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = task_context()
        task, attempt = context.partitionId(), context.taskAttemptId()
        labels: dict[int, list[Label]] = {index: [] for index in range(self.routed)}
        sequences: dict[tuple[str, int], int] = defaultdict(int)
        bundle = Bundle()
        for block in encode_stream(batches, self._plan(), now_ms=self.now_ms, spread_from=task):
            place = (block.topic, block.partition)
            index = route(*place, self.routed)
            label = Label(
                *place,
                task=task,
                attempt=attempt,
                sequence=sequences[place],
                rows=block.count,
                bytes=block.size_bytes,
                checksum=checksum_of(block),
            )
            sequences[place] += 1
            labels[index].append(label)
            yield from bundle.add(index, label, block)
        yield from bundle.rows()
        yield manifest_rows(
            (index, manifest_of(task, attempt, found)) for index, found in labels.items()
        )

    def _plan(self) -> EncodePlan:
        if self.topic is not None:
            return plan_for(self.options, self.topic, self.counts)
        return plan_for(self.options, None, PartitionCounts(lambda: connection(self.options).wire))


@dataclass(frozen=True)
class SendTask:
    """The blocks of one routed partition to their leaders, under the batch's one identity."""

    options: KafkaOptions
    identity: Identity

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Send all, and yield what was acknowledged; a second attempt sends nothing."""
        attempt = task_context().attemptNumber()
        if attempt > 0:
            # The first attempt may still be sending. Two live senders of one partition under one
            # epoch would corrupt it: the broker takes the second one's blocks for repeats.
            raise StoreUnavailable(
                f"this is attempt {attempt} of a send task; only the driver sends a batch again"
            )
        sender = Sender(connection(self.options).wire, self.identity)
        tally = Tally()
        try:
            for block in blocks_of(batches):
                tally.add(block)
                sender.send(block)
            sent = confirmed(tally.summary(), sender.flush())
        finally:
            sender.close()
        yield _sent_rows(sent.partitions)


def route(topic: str, partition: int, routed: int) -> int:
    """Return the routed partition of an output partition: neighbours go to different ones."""
    return (zlib.crc32(topic.encode()) + partition) % routed


def _sent_rows(partitions: Iterable[PartitionSummary]) -> pa.RecordBatch:
    schema = pa.schema(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("blocks", pa.int32()),
            ("rows", pa.int64()),
            ("bytes", pa.int64()),
            ("digest", pa.string()),
        ]
    )
    rows = [{name: getattr(part, name) for name in schema.names} for part in partitions]
    return pa.RecordBatch.from_pylist(rows, schema=schema)
