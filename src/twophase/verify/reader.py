"""The readers of a verification: one that runs all along, and one that reads all in the end.

The running reader is read_committed. Beside reading, it looks every few milliseconds at where the
broker lets such readers come to (looks.py).
"""

import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from kafka import KafkaConsumer
from kafka.errors import KafkaError
from kafka.structs import TopicPartition as Place

from twophase.errors import StoreUnavailable
from twophase.kafka.admin import TransactionState, list_transactions
from twophase.kafka.ends import end_offsets
from twophase.kafka.options import KafkaOptions
from twophase.kafka.wire import Wire
from twophase.verify.checker import Running
from twophase.verify.history import ReaderStalled, ReaderTroubled, Record, RowsSeen
from twophase.verify.looks import Look, Stalls
from twophase.verify.rows import Input
from twophase.verify.seen import Collector, ReadRow

# Any library's reader: returns every row that a read_committed reader sees now, of each partition
# by rising offset.
FinalReader = Callable[[], Iterable[ReadRow]]

ISOLATION: Final = "read_committed"
ENDING: Final = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
OPEN: Final = (TransactionState.ONGOING, *ENDING)

_POLL_ROWS: Final = 1_000
_ANSWER_MS: Final = 5_000
_STALL_NOTED_S: Final = 0.1
_TROUBLE_PAUSE_S: Final = 0.1
# After a broker was stopped, kafka-python's consumer was seen to ask it for ever.
_LOST_AFTER_S: Final = 10.0


class RunningReader:
    """Reads a topic in a thread of its own from `start` until `stop`.

    `transactional_id` is the one that the sink writes under, or how its ids begin; it is needed to
    tell a torn batch from a transaction whose partitions the broker is just revealing. A sink
    without transactions has none.
    """

    def __init__(
        self,
        options: KafkaOptions,
        topic: str,
        of: Input,
        *,
        sink: str,
        record: Record,
        transactional_id: str | None,
        look_every_s: float = 0.05,
    ) -> None:
        # A broker that is gone must not keep the reader from looking at the others for long.
        self._options = replace(options, request_timeout_ms=_ANSWER_MS)
        self._topic, self._sink = topic, sink
        self._record, self._transactional_id = record, transactional_id
        self._look_every_s = look_every_s
        self._collector = Collector(of)
        self._looks: list[Look] = []
        self._stalls = Stalls()
        self._reached: dict[int, int] = {}
        self._begun, self._stopping = threading.Event(), threading.Event()
        self._deadline_s = float("inf")
        self._end: Look | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"reader of {topic}", daemon=True)

    def start(self, timeout_s: float = 60.0) -> None:
        """Begin to read at the topic's beginning; return after the first look."""
        self._thread.start()
        if not self._begun.wait(timeout_s):
            raise StoreUnavailable(f"the reader of {self._topic} had no look in {timeout_s:.0f} s")
        if self._failure is not None:
            raise self._failure

    def stop(self, timeout_s: float = 120.0) -> Running:
        """Read up to the present end and return all that was seen; raise what stopped the reader.

        An end that cannot be reached in time is an error: less would look like lost rows.
        """
        self._deadline_s = time.monotonic() + timeout_s
        self._stopping.set()
        self._thread.join(timeout_s + 2 * _ANSWER_MS / 1000)
        if self._failure is not None:
            raise self._failure
        if self._thread.is_alive():
            raise StoreUnavailable(f"the reader of {self._topic} did not stop in {timeout_s:.0f} s")
        return Running(
            self._collector.seen(), dict(self._reached), self._looks, self._stalls.longest_s
        )

    def abandon(self) -> None:
        """Stop reading at once and for good; what was seen does not matter any more."""
        self._deadline_s = 0.0
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(2 * _ANSWER_MS / 1000)

    @property
    def rows(self) -> int:
        """How many rows it has seen so far."""
        return self._collector.rows

    def _run(self) -> None:
        try:
            with Wire(self._options) as wire:
                while not self._followed(wire):
                    time.sleep(_TROUBLE_PAUSE_S)
        except BaseException as failure:  # noqa: BLE001 - raised again in the caller's thread
            self._failure = failure
            self._begun.set()

    def _followed(self, wire: Wire) -> bool:
        """Read to the end by one consumer; False where it is lost and another must go on."""
        try:
            with _consumer(self._options) as reading:
                _assign(reading, self._topic, self._reached)
                return self._follow(reading, wire)
        except (KafkaError, StoreUnavailable) as error:
            if not self._begun.is_set() or time.monotonic() > self._deadline_s:
                raise
            self._troubled(error)
            return False

    def _follow(self, reading: Any, wire: Wire) -> bool:
        """Look and read in turn until the end; no answer is noted and survived."""
        moved_s = time.monotonic()
        while True:
            # The end is where a look comes to that began after `stop`.
            stopping, before = self._stopping.is_set(), self._reached
            look = self._looked(wire)
            self._read(reading, time.monotonic() + self._look_every_s)
            now_s = time.monotonic()
            if stopping:
                self._end = self._end or look
                if self._end is not None and not self._behind(self._end):
                    return True
                if now_s > self._deadline_s:
                    raise StoreUnavailable(
                        f"the reader of {self._topic} did not get to its end in time"
                    )
            if self._reached != before or look is None or not self._behind(look):
                moved_s = now_s
            elif now_s - moved_s > _LOST_AFTER_S:
                raise StoreUnavailable(f"no row in {_LOST_AFTER_S:.0f} s, and there are some")

    def _behind(self, look: Look) -> bool:
        return any(self._reached.get(at, 0) < stable for at, stable in look.stable.items())

    def _troubled(self, error: Exception) -> None:
        self._record(ReaderTroubled(sink=self._sink, error=str(error) or repr(error)))

    def _looked(self, wire: Wire) -> Look | None:
        try:
            return self._look(wire)
        except StoreUnavailable as error:
            self._troubled(error)
            return None

    def _look(self, wire: Wire) -> Look:
        settled = not self._ending(wire)
        # The end first: what is committed between the two questions must not look hidden.
        ends = end_offsets(wire, self._topic)
        stable = end_offsets(wire, self._topic, committed=True)
        at_s = time.monotonic()
        look = Look(at_s, ends, stable, settled and not self._ending(wire))
        for stall in self._stalls.look(look):
            if stall.held_s >= _STALL_NOTED_S:
                self._record(
                    ReaderStalled(
                        at_s=at_s,
                        sink=self._sink,
                        partition=stall.partition,
                        offset=stall.offset,
                        held_s=stall.held_s,
                    )
                )
        _keep(self._looks, look)
        self._begun.set()
        return look

    def _ending(self, wire: Wire) -> bool:
        prefix = self._transactional_id
        return prefix is not None and bool(list_transactions(wire, prefix=prefix, states=ENDING))

    def _read(self, reading: Any, until_s: float) -> None:
        """Poll until then, at least once; whatever is raised, `_reached` fits the rows seen."""
        reached = dict(self._reached)
        try:
            while True:
                left_ms = max(0, int((until_s - time.monotonic()) * 1000))
                for place, rows in reading.poll(left_ms, max_records=_POLL_ROWS).items():
                    for row in rows:
                        self._collector.add(place.partition, row.offset, row.key, row.value)
                    reached[place.partition] = rows[-1].offset + 1
                if time.monotonic() >= until_s:
                    break
            # Also past what is no row: aborted ones, and the ends of transactions.
            for place in reading.assignment():
                reached[place.partition] = reading.position(place)
        finally:
            if reached != self._reached:
                self._reached = reached
                self._record(RowsSeen(sink=self._sink, rows=self._collector.rows, reached=reached))


def read_all(
    options: KafkaOptions, topic: str, timeout_s: float = 300.0
) -> Generator[ReadRow, None, None]:
    """Yield every row that a read_committed reader sees now; raise where that takes too long."""
    with _consumer(options) as consumer:
        places = _assign(consumer, topic)
        ends, deadline = consumer.end_offsets(places), time.monotonic() + timeout_s
        while any(consumer.position(place) < ends[place] for place in places):
            if time.monotonic() > deadline:
                raise StoreUnavailable(f"{topic} was not read to its end in {timeout_s:.0f} s")
            for rows in consumer.poll(200, max_records=_POLL_ROWS).values():
                yield from rows


def left_open(wire: Wire, transactional_id: str, timeout_s: float = 30.0) -> tuple[str, ...]:
    """Return the transactions under ids that begin so which are open; wait for those that end."""
    deadline = time.monotonic() + timeout_s
    while list_transactions(wire, prefix=transactional_id, states=ENDING):
        if time.monotonic() > deadline:
            break
        time.sleep(0.02)
    found = list_transactions(wire, prefix=transactional_id, states=OPEN)
    return tuple(f"{row.transactional_id} ({row.state})" for row in found)


@contextmanager
def _consumer(options: KafkaOptions) -> Iterator[Any]:
    settings = options.connection_settings()
    # A consumer knows fewer of them than a connection does.
    known = {
        name: value for name, value in settings.items() if name in KafkaConsumer.DEFAULT_CONFIG
    }
    consumer = KafkaConsumer(
        **known,
        isolation_level=ISOLATION,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        allow_auto_create_topics=False,
        # In pure Python that takes most of the time; every row has a checksum of its own.
        check_crcs=False,
        fetch_max_wait_ms=20,
        metrics_enabled=False,
    )
    try:
        yield consumer
    finally:
        consumer.close(autocommit=False, timeout_ms=_ANSWER_MS)


def _assign(consumer: Any, topic: str, reached: Mapping[int, int] | None = None) -> list[Place]:
    partitions = consumer.partitions_for_topic(topic)
    if not partitions:
        raise StoreUnavailable(f"topic {topic!r} is not there yet; create it first")
    places = [Place(topic, partition) for partition in sorted(partitions)]
    consumer.assign(places)
    consumer.seek_to_beginning()
    for partition, offset in (reached or {}).items():
        consumer.seek(Place(topic, partition), offset)
    return places


def _keep(looks: list[Look], look: Look) -> None:
    """Keep a look; of many that show the same, the first and the last say all."""
    if len(looks) > 1 and all(
        (old.stable, old.settled) == (look.stable, look.settled) for old in looks[-2:]
    ):
        looks[-1] = look
    else:
        looks.append(look)
