"""The readers of a verification: one that runs all along, and one that reads all in the end.

The running reader is read_committed. Beside reading, it looks every few milliseconds at where the
broker lets such readers come to (looks.py).
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from kafka import KafkaConsumer
from kafka.errors import KafkaError
from kafka.structs import TopicPartition as Place

from twophase.errors import ProtocolViolation, StoreUnavailable
from twophase.kafka.admin import TransactionState, list_transactions
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

COMMITTED: Final = "read_committed"
UNCOMMITTED: Final = "read_uncommitted"
ENDING: Final = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
OPEN: Final = (TransactionState.ONGOING, *ENDING)

_POLL_ROWS: Final = 1_000
_ANSWER_MS: Final = 5_000
_STALL_NOTED_S: Final = 0.1
_TROUBLE_PAUSE_S: Final = 0.1


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
            with (
                _consumer(self._options, COMMITTED) as reading,
                _consumer(self._options, UNCOMMITTED) as looking,
                Wire(self._options) as wire,
            ):
                places = _assign(reading, self._topic)
                while not self._stopping.is_set():
                    self._round(reading, looking, wire, places)
                self._last_round(reading, looking, wire, places)
        except BaseException as failure:  # noqa: BLE001 - raised again in the caller's thread
            self._failure = failure
            self._begun.set()

    def _round(self, reading: Any, looking: Any, wire: Wire, places: list[Place]) -> Look | None:
        """Look once, then read until the next look is due; no answer is noted and survived."""
        look = None
        try:
            look = self._look(reading, looking, wire, places)
            self._read(reading, time.monotonic() + self._look_every_s)
        except ProtocolViolation:
            raise
        except (KafkaError, StoreUnavailable) as error:
            self._record(ReaderTroubled(sink=self._sink, error=str(error) or repr(error)))
            time.sleep(_TROUBLE_PAUSE_S)
        return look

    def _last_round(self, reading: Any, looking: Any, wire: Wire, places: list[Place]) -> None:
        end: Look | None = None
        while end is None or any(self._reached[at] < end.stable[at] for at in end.stable):
            if time.monotonic() > self._deadline_s:
                raise StoreUnavailable(
                    f"the reader of {self._topic} did not get to its end in time"
                )
            look = self._round(reading, looking, wire, places)
            end = end or look

    def _look(self, reading: Any, looking: Any, wire: Wire, places: list[Place]) -> Look:
        settled = not self._ending(wire)
        # The end first: what is committed between the two questions must not look hidden.
        ends = _ends(looking, places)
        stable = _ends(reading, places)
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
        """Poll until then, at least once."""
        before = dict(self._reached)
        while True:
            left_ms = max(0, int((until_s - time.monotonic()) * 1000))
            for place, rows in reading.poll(left_ms, max_records=_POLL_ROWS).items():
                for row in rows:
                    self._collector.add(place.partition, row.offset, row.key, row.value)
            if time.monotonic() >= until_s:
                break
        # The position also goes past what is no row: aborted ones, and the ends of transactions.
        self._reached = {place.partition: reading.position(place) for place in reading.assignment()}
        if self._reached != before:
            self._record(
                RowsSeen(sink=self._sink, rows=self._collector.rows, reached=self._reached)
            )


def read_all(options: KafkaOptions, topic: str, timeout_s: float = 300.0) -> Iterator[ReadRow]:
    """Yield every row that a read_committed reader sees now; raise where that takes too long."""
    with _consumer(options, COMMITTED) as consumer:
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
def _consumer(options: KafkaOptions, isolation_level: str) -> Iterator[Any]:
    settings = options.connection_settings()
    # A consumer knows fewer of them than a connection does.
    known = {
        name: value for name, value in settings.items() if name in KafkaConsumer.DEFAULT_CONFIG
    }
    consumer = KafkaConsumer(
        **known,
        isolation_level=isolation_level,
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


def _assign(consumer: Any, topic: str) -> list[Place]:
    partitions = consumer.partitions_for_topic(topic)
    if not partitions:
        raise StoreUnavailable(f"topic {topic!r} is not there yet; create it first")
    places = [Place(topic, partition) for partition in sorted(partitions)]
    consumer.assign(places)
    consumer.seek_to_beginning()
    return places


def _ends(consumer: Any, places: list[Place]) -> Mapping[int, int]:
    """Return how far a consumer's isolation level lets it read, per partition."""
    found = consumer.end_offsets(places, timeout_ms=_ANSWER_MS)
    return {place.partition: found[place] for place in places}


def _keep(looks: list[Look], look: Look) -> None:
    """Keep a look; of many that show the same, the first and the last say all."""
    if len(looks) > 1 and all(
        (old.stable, old.settled) == (look.stable, look.settled) for old in looks[-2:]
    ):
        looks[-1] = look
    else:
        looks.append(look)
