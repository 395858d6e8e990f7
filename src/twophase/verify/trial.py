"""A trial: one sink's query on a source of known rows, a reader all along, a verdict in the end."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

from twophase.errors import StoreUnavailable
from twophase.kafka.ends import end_offsets
from twophase.verify.batches import Batches, planned, planned_ends
from twophase.verify.checker import check
from twophase.verify.driver import PROGRAM, Driver
from twophase.verify.reader import FinalReader, RunningReader, left_open, read_all
from twophase.verify.seen import collect
from twophase.verify.source import Source, reading_time_s
from twophase.verify.verdict import Verdict

TWOPHASE: Final = "twophase"
SPARK: Final = "Spark's own sink"
_POLL_S: Final = 0.01


class Trial:
    """One sink that writes a source's rows to a topic of its own, watched from the beginning."""

    def __init__(
        self,
        source: Source,
        folder: Path,
        *,
        sink: str = TWOPHASE,
        rows_per_batch: int,
        program: tuple[str, ...] = PROGRAM,
        **settings: Any,
    ) -> None:
        folder.mkdir(parents=True)
        self.source, self.sink, self.folder = source, sink, folder
        self.target = f"{source.input.name}-{folder.name}"
        self.checkpoint = folder / "checkpoint"
        self.settings = {
            "servers": source.servers,
            "source": source.topic,
            "target": self.target,
            "checkpoint": str(self.checkpoint),
            "sink": sink,
            "sink_id": self.target,
            "history": str(source.history.path),
            "rows_per_batch": rows_per_batch,
            **settings,
        }
        self._program = program
        self._stack = ExitStack()
        source.make_topic(self.target)
        self.driver = self.another_driver()
        self.reader = RunningReader(
            source.options,
            self.target,
            source.input,
            sink=sink,
            record=source.history.record,
            transactional_id=self.transactional_id,
        )
        self._stack.callback(self.reader.abandon)
        try:
            self.reader.start()
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def transactional_id(self) -> str:
        """The id that the sink writes under, or that the ids of its tasks begin with."""
        return f"twophase.{self.settings['sink_id']}"

    @property
    def by_task(self) -> bool:
        """Whether each task has a transaction of its own; their ids begin with the sink's."""
        return bool(self.settings.get("options", {}).get("scope") == "task")

    def another_driver(self, name: str = "driver", **more: Any) -> Driver:
        """Return a driver of the same query, or with other settings; it ends with the trial."""
        log = self.folder / f"{name}.log"
        driver = Driver(
            self.settings | more,
            self.source.history,
            log,
            program=self._program,
            name=name,
            connection=self.source.connection,
        )
        self._stack.callback(driver.close)
        return driver

    def last_done(self) -> int:
        """Return the last batch that Spark has noted as done; -1 before the first."""
        commits = self.checkpoint / "commits"
        names = [path.name for path in commits.iterdir()] if commits.is_dir() else []
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def length(self) -> int:
        """Return how many offsets the target's log has, committed or not."""
        return sum(end_offsets(self.source.wire, self.target).values())

    def finished(self) -> bool:
        """Whether the source has all rows, and Spark has noted the batch as done that ends it."""
        done = self.last_done()
        if done < 0:
            return False
        ends = end_offsets(self.source.wire, self.source.topic)
        full = sum(ends.values()) >= self.source.input.rows
        return full and planned_ends(self.checkpoint, self.source.topic, done) == ends

    def wait_until(self, met: Callable[[], bool], timeout_s: float) -> None:
        """Wait while the driver runs; raise with its last words if it ends or takes too long."""
        deadline_s = time.monotonic() + timeout_s
        while not met():
            if self.driver.code is not None:
                words = self.driver.last_words()
                raise StoreUnavailable(f"the query of {self.sink} ended by itself: {words}")
            if time.monotonic() > deadline_s:
                words = self.driver.last_words()
                raise StoreUnavailable(f"the query of {self.sink} is not there yet: {words}")
            time.sleep(_POLL_S)

    def verdict(self, final: FinalReader | None = None) -> Verdict:
        """Return what is wrong with the topic; `final` reads it by another library."""
        source, rows = self.source, self.source.input
        time_s = reading_time_s(rows.rows)
        running = self.reader.stop(time_s)
        read = read_all(source.options, self.target, time_s) if final is None else final()
        return check(
            self.sink,
            rows,
            collect(rows, read),
            running=running,
            batches=self.batches(),
            left_open=left_open(source.wire, self.transactional_id),
            at_once=not self.by_task,
        )

    def batches(self) -> Batches | None:
        """Return which batch each row belongs to; None where that cannot be known."""
        ends = planned(self.checkpoint, self.source.topic)
        return Batches.by_offsets(self.source.input, self.source.read(), ends)
