"""What runs on the executors: encode tasks, and send tasks of which none may run twice."""

import logging
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass

import pyarrow as pa

from twophase.commit.manifest import Label, manifest_of
from twophase.commit.summary import PartitionSummary
from twophase.errors import StoreUnavailable, TwoPhaseError
from twophase.kafka.counts import PartitionCounts
from twophase.kafka.dead_letters import DeadLetters
from twophase.kafka.delivery import send_all
from twophase.kafka.identity import Identity
from twophase.kafka.options import KafkaOptions
from twophase.kafka.plan import EncodePlan, plan_for
from twophase.kafka.records import encode_stream
from twophase.kafka.sender import Sender
from twophase.kafka.summaries import checksum_of
from twophase.kafka.wire import Wire
from twophase.spark.block_files import BlockFile
from twophase.spark.light import HeavyRows, unflagged
from twophase.spark.routed import Bundle, blocks_of, heavy_mark, manifest_rows
from twophase.spark.workers import connection, task_context

_log = logging.getLogger("twophase")

SENT_SCHEMA = (
    "topic string, partition int, blocks int, rows long, bytes long, digest string, error string"
)


@dataclass(frozen=True)
class EncodeTask:
    """Rows of one task to blocks, each on its way to one routed partition.

    With a `folder` the blocks are put into a file there, and only their labels go on.

    `counts` are the partitions of `topic` and of the dead-letter topic. Where topics come from a
    column, each task asks for those that it meets: to ask for them all before would execute the
    plan twice.
    """

    options: KafkaOptions
    topic: str | None
    counts: Mapping[str, int]
    routed: int
    now_ms: int
    light: bool = False
    dead: DeadLetters | None = None
    folder: str | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield every block, or its label, then a manifest for every routed partition.

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
        blocks = encode_stream(batches, self._plan(), now_ms=self.now_ms, spread_from=task)
        carrier = Bundle() if self.folder is None else BlockFile(self.folder, task, attempt)
        with closing(carrier):
            for block in blocks:
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
                yield from carrier.add(index, label, block)
            yield from carrier.rows()
        yield manifest_rows(
            (index, manifest_of(task, attempt, found)) for index, found in labels.items()
        )

    def _plan(self) -> EncodePlan:
        counts = self.counts
        if self.topic is None:
            optional = self.dead is not None
            counts = PartitionCounts(self._wire, optional=optional, known=self.counts)
        return plan_for(self.options, self.topic, counts, dead=self.dead, connect=self._wire)

    def _wire(self) -> Wire:
        return connection(self.options).wire


@dataclass(frozen=True)
class SendTask:
    """The blocks of one routed partition to their leaders, under the batch's one identity."""

    options: KafkaOptions
    identity: Identity

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Send all, and yield what was acknowledged; a second attempt sends nothing.

        An error is yielded too: raised, Spark would start the task again a few times, and tell the
        driver only what the last of these attempts has raised, which is below.
        """
        attempt = task_context().attemptNumber()
        if attempt > 0:
            # The first attempt may still be sending. Two live senders of one partition under one
            # epoch would corrupt it: the broker takes the second one's blocks for repeats.
            raise StoreUnavailable(
                f"this is attempt {attempt} of a send task; only the driver sends a batch again"
            )
        try:
            with closing(Sender(connection(self.options).wire, self.identity)) as sender:
                sent = send_all(sender, blocks_of(batches))
            rows = _sent_rows(sent.partitions)
        except TwoPhaseError as error:
            rows = _sent_rows((), error=str(error))
        except Exception as error:  # noqa: BLE001 - the driver raises it
            _log.exception("a send task failed")
            rows = _sent_rows((), error=f"a send task failed: {type(error).__name__}: {error}")
        # After an error too: Spark may still be writing them, and repeats a task whose pipe breaks.
        for _ in batches:
            pass
        yield rows


def route(topic: str, partition: int, routed: int) -> int:
    """Return the routed partition of an output partition: neighbours go to different ones."""
    return (zlib.crc32(topic.encode()) + partition) % routed


def _sent_rows(partitions: Iterable[PartitionSummary], error: str | None = None) -> pa.RecordBatch:
    schema = pa.schema(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("blocks", pa.int32()),
            ("rows", pa.int64()),
            ("bytes", pa.int64()),
            ("digest", pa.string()),
            ("error", pa.string()),
        ]
    )
    rows = [asdict(part) for part in partitions] if error is None else [{"error": error}]
    return pa.RecordBatch.from_pylist(rows, schema=schema)
