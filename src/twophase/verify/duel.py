"""Two sinks under the same kills: one stream of orders, the same query, two topics, one checker."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import uuid4

from kafka.admin import KafkaAdminClient, NewTopic

from twophase.kafka.options import KafkaOptions
from twophase.kafka.wire import Wire
from twophase.verify.batches import Batches, planned
from twophase.verify.checker import check
from twophase.verify.contender import Contender, Kills
from twophase.verify.fill import Filler
from twophase.verify.history import History, HistoryFile
from twophase.verify.reader import RunningReader, left_open, read_all
from twophase.verify.rows import Input
from twophase.verify.seen import Seen, collect
from twophase.verify.verdict import Verdict

_PARTITIONS: Final = 4
_FILL_EVERY_S: Final = 0.5
_TELL_EVERY_S: Final = 0.25
_HISTORY: Final = "history.jsonl"


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is written, how fast, in which pieces, and how often each driver is killed."""

    rows: int = 200_000
    rows_per_batch: int = 20_000
    rows_per_s: int = 5_000
    kills: Kills = field(default_factory=lambda: Kills(3))
    limit_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a sink is: rows that its reader has seen, kills that it has had."""

    rows: int
    kills: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it: a verdict for each sink, in the order given, and all that happened."""

    verdicts: tuple[Verdict, ...]
    history: History
    kills: Mapping[str, int]
    took_s: float


Told = Callable[[Mapping[str, Standing]], None]


def duel(
    servers: str, folder: Path, sinks: Sequence[str], plan: Plan, told: Told = lambda _: None
) -> Outcome:
    """Run the sinks side by side until each has written all rows.

    `told` hears a few times a second how far each is. Nothing of it runs any more when this returns
    or raises, an interrupt included.
    """
    began_s = time.monotonic()
    options = KafkaOptions.parse({"kafka.bootstrap.servers": servers})
    of = Input(f"orders-{uuid4().hex[:8]}", plan.rows)
    with ExitStack() as stack:
        wire = stack.enter_context(Wire(options))
        history = stack.enter_context(HistoryFile(folder / _HISTORY))
        source = f"{of.name}-in"
        corners = [
            _Corner(
                sink,
                folder / f"query-{at}",
                of=of,
                source=source,
                wire=stack.enter_context(Wire(options)),
                history=history,
                rows_per_batch=plan.rows_per_batch,
            )
            for at, sink in enumerate(sinks)
        ]
        _make_topics(servers, [source, *(corner.target for corner in corners)])
        for corner in corners:
            corner.reader.start()
        with _filling(Filler(wire, source, of, history.record), plan):
            _fight(corners, plan, told)
        read = collect(of, read_all(options, source))
        verdicts = tuple(corner.verdict(wire, read) for corner in corners)
    return Outcome(
        verdicts,
        History.load(folder / _HISTORY),
        {corner.sink: corner.contender.kills for corner in corners},
        time.monotonic() - began_s,
    )


class _Corner:
    """All that belongs to one sink: its topic, its query, its reader."""

    def __init__(
        self,
        sink: str,
        folder: Path,
        *,
        of: Input,
        source: str,
        wire: Wire,
        history: HistoryFile,
        rows_per_batch: int,
    ) -> None:
        options = wire.options
        self.sink, self.source, self.target = sink, source, f"{of.name}-{folder.name}"
        self._options, self._input, self._checkpoint = options, of, folder / "checkpoint"
        folder.mkdir()
        arguments = {
            "servers": ",".join(options.bootstrap_servers),
            "source": source,
            "target": self.target,
            "checkpoint": str(self._checkpoint),
            "sink": sink,
            "sink_id": self.target,
            "history": str(history.path),
            "rows_per_batch": rows_per_batch,
        }
        self.contender = Contender(arguments, of.rows, wire, history)
        self._transactional_id = f"twophase.{self.target}"
        self.reader = RunningReader(
            options,
            self.target,
            of,
            sink=sink,
            record=history.record,
            transactional_id=self._transactional_id,
        )

    def standing(self) -> Standing:
        """Return how far it is now."""
        return Standing(self.reader.rows, self.contender.kills)

    def verdict(self, wire: Wire, read: Seen) -> Verdict:
        """Return what is wrong with the topic, now that all is written."""
        running = self.reader.stop()
        return check(
            self.sink,
            self._input,
            collect(self._input, read_all(self._options, self.target)),
            running=running,
            batches=Batches.by_offsets(self._input, read, planned(self._checkpoint, self.source)),
            left_open=left_open(wire, self._transactional_id),
        )


def _fight(corners: Sequence[_Corner], plan: Plan, told: Told) -> None:
    """Let all queries run and die; the first failure, or an interrupt, stops them all."""
    stopping = threading.Event()
    with ThreadPoolExecutor(len(corners)) as pool:
        fights: list[Future[None]] = [
            pool.submit(corner.contender.fight, plan.kills, stopping, plan.limit_s)
            for corner in corners
        ]
        try:
            left = set(fights)
            while left:
                done, left = wait(left, timeout=_TELL_EVERY_S)
                told({corner.sink: corner.standing() for corner in corners})
                for fight in done:
                    fight.result()
        finally:
            stopping.set()


@contextmanager
def _filling(filler: Filler, plan: Plan) -> Iterator[None]:
    """Fill the source beside what happens inside, at a steady rate; raise what stopped it."""
    stopping = threading.Event()

    def fill() -> None:
        step = max(1, int(plan.rows_per_s * _FILL_EVERY_S))
        began_s = time.monotonic()
        for at, first in enumerate(range(0, plan.rows, step)):
            due_s = began_s + at * _FILL_EVERY_S
            if stopping.wait(max(0.0, due_s - time.monotonic())):
                return
            filler.fill(first, min(first + step, plan.rows))

    with ThreadPoolExecutor(1) as pool:
        filled = pool.submit(fill)
        try:
            yield
        finally:
            stopping.set()
        filled.result()


def _make_topics(servers: str, names: Sequence[str]) -> None:
    admin = KafkaAdminClient(bootstrap_servers=servers)
    try:
        # -1: as many replicas as the brokers give by default.
        admin.create_topics([NewTopic(name, _PARTITIONS, -1) for name in names])
        admin.wait_for_topics(list(names))
    finally:
        admin.close()
