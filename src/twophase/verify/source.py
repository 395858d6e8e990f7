"""The source of a trial: a topic of known rows, filled at once or at a steady rate."""

import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, Self
from uuid import uuid4

from twophase.kafka.options import KafkaOptions
from twophase.kafka.wire import Wire
from twophase.verify.fill import Filler
from twophase.verify.history import HistoryFile
from twophase.verify.reader import read_all
from twophase.verify.rows import Input
from twophase.verify.seen import Seen, collect
from twophase.verify.topics import BY_DEFAULT, PARTITIONS, make_topics

_FILL_EVERY_S: Final = 0.5


class Source:
    """A topic of known rows, filled as far as the trial has come.

    `connection` are more of Kafka's options for whoever reads and writes, as a sink takes them;
    they may hold secrets. `name` is how the names of all topics of the verification begin.
    """

    def __init__(
        self,
        servers: str,
        rows: int,
        history: HistoryFile,
        kind: type[Input] = Input,
        *,
        name: str | None = None,
        connection: Mapping[str, str] | None = None,
        partitions: int = PARTITIONS,
        replicas: int = BY_DEFAULT,
    ) -> None:
        self.servers, self.history = servers, history
        self.connection = {**(connection or {}), "kafka.bootstrap.servers": servers}
        self.partitions, self.replicas = partitions, replicas
        self.input = kind(name or f"orders-{uuid4().hex[:8]}", rows)
        self.topic = f"{self.input.name}-in"
        self.options = KafkaOptions.parse(self.connection)
        self.make_topic(self.topic)
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

    def make_topic(self, name: str) -> None:
        """Make a topic of the same kind as the source."""
        make_topics(self.options, [name], self.partitions, self.replicas)

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
