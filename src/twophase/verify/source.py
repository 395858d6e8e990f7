"""The source of a trial: a topic of known rows, filled at once or at a steady rate."""

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, Self
from uuid import uuid4

from kafka.admin import KafkaAdminClient, NewTopic

from twophase.errors import StoreUnavailable
from twophase.kafka.leaders import leaders_in, leaders_request
from twophase.kafka.options import KafkaOptions
from twophase.kafka.wire import Wire
from twophase.verify.fill import Filler
from twophase.verify.history import HistoryFile
from twophase.verify.reader import read_all
from twophase.verify.rows import Input
from twophase.verify.seen import Seen, collect

PARTITIONS: Final = 4
_FILL_EVERY_S: Final = 0.5
_POLL_S: Final = 0.01
_TOPICS_S: Final = 60.0


class Source:
    """A topic of known rows, filled as far as the trial has come."""

    def __init__(
        self, servers: str, rows: int, history: HistoryFile, kind: type[Input] = Input
    ) -> None:
        self.servers, self.history = servers, history
        self.input = kind(f"orders-{uuid4().hex[:8]}", rows)
        self.topic = f"{self.input.name}-in"
        self.options = KafkaOptions.parse({"kafka.bootstrap.servers": servers})
        make_topics(servers, [self.topic])
        self.wire = Wire(self.options)
        try:
            self._filler = Filler(self.wire, self.topic, self.input, history.record)
        except BaseException:
            self.wire.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wire.close()

    def fill(self, first: int = 0, stop: int | None = None) -> None:
        """Write the rows `first` to `stop` - 1, by default all."""
        self._filler.fill(first, self.input.rows if stop is None else stop)

    @contextmanager
    def filling(self, rows_per_s: int, first: int = 0) -> Iterator[Future[None]]:
        """Write all rows from `first` on at a steady rate, beside what happens inside.

        Yields what tells how that went; leaving ends it where it is.
        """
        step = max(1, int(rows_per_s * _FILL_EVERY_S))
        stopping = threading.Event()

        def fill() -> None:
            began_s = time.monotonic()
            for at, start in enumerate(range(first, self.input.rows, step)):
                due_s = began_s + at * _FILL_EVERY_S
                if stopping.wait(max(0.0, due_s - time.monotonic())):
                    return
                self.fill(start, min(start + step, self.input.rows))

        with ThreadPoolExecutor(1) as pool:
            filled = pool.submit(fill)
            try:
                yield filled
            finally:
                stopping.set()

    def read(self) -> Seen:
        """Return the source as it lies there."""
        rows = read_all(self.options, self.topic, reading_time_s(self.input.rows))
        return collect(self.input, rows)


def reading_time_s(rows: int) -> float:
    """Return how long a reader may take for so many rows on a machine with much else to do."""
    return 120.0 + rows / 2_000


def make_topics(servers: str, names: Sequence[str], partitions: int = PARTITIONS) -> None:
    """Make topics, with as many replicas as the brokers give by default."""
    admin = KafkaAdminClient(bootstrap_servers=servers)
    try:
        admin.create_topics([NewTopic(name, partitions, -1) for name in names])
    finally:
        admin.close()
    with Wire(KafkaOptions.parse({"kafka.bootstrap.servers": servers})) as wire:
        for node in wire.nodes():
            _wait_for_leaders(wire, node, names, partitions * len(names))


def _wait_for_leaders(wire: Wire, node: int, names: Sequence[str], count: int) -> None:
    """Wait until this broker knows the topics; one knows them a moment before the others."""
    deadline_s = time.monotonic() + _TOPICS_S
    while len(leaders_in(wire.ask(leaders_request(names), node))) < count:
        if time.monotonic() > deadline_s:
            raise StoreUnavailable(
                f"node {node} does not know {', '.join(names)} after {_TOPICS_S:.0f} s; try again"
            )
        time.sleep(_POLL_S)
