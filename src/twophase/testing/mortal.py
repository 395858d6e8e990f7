"""A process that dies or freezes at one chosen step, as kill -9 and SIGSTOP would have it.

Steps are the calls that reach outside: to the sink's store and to the decision log.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Any

import pyarrow as pa

from twophase.commit.attempts import Attempt, Stale, Turn
from twophase.log.decision import Committable
from twophase.log.folder import Folder
from twophase.two_phase import TwoPhaseCommitSink

_WAIT_S = 60


class Died(BaseException):
    """The process is dead: nothing catches this, and nothing works in it any more."""


class Process:
    """Counts steps; before or after step `at` it dies, or freezes until it is let go."""

    def __init__(
        self, at: int | None = None, *, after: bool = False, freezes: bool = False
    ) -> None:
        self.steps = 0
        self.froze = False
        # Set when it freezes, and by whoever runs it when it ends.
        self.stopped = threading.Event()
        self._at, self._after, self._freezes = at, after, freezes
        self._dead = False
        self._let_go = threading.Event()

    def let_go(self) -> None:
        """Wake a frozen process up."""
        self._let_go.set()

    def step(self, act: Callable[..., Any], *args: Any) -> Any:
        """Do one thing outside, unless the process dies of it."""
        if self._dead:
            raise Died
        self.steps += 1
        here = self.steps == self._at
        if here and not self._after:
            self._stop()
        result = act(*args)
        if here and self._after:
            self._stop()
        return result

    def _stop(self) -> None:
        if not self._freezes:
            self._dead = True
            raise Died
        self.froze = True
        self.stopped.set()
        if not self._let_go.wait(_WAIT_S):
            raise TimeoutError("nobody woke the process up")


class MortalSink(TwoPhaseCommitSink[Any]):
    """A sink as one process sees it."""

    def __init__(self, sink: TwoPhaseCommitSink[Any], process: Process) -> None:
        self._sink, self._process = sink, process
        self.time_limit_s = sink.time_limit_s

    def begin(self, attempt: Attempt) -> Any:
        """Open a transaction."""
        return self._process.step(self._sink.begin, attempt)

    def write(self, transaction: Any, rows: pa.RecordBatch) -> None:
        """Write rows."""
        self._process.step(self._sink.write, transaction, rows)

    def prepare(self, transaction: Any) -> Committable:
        """Prepare them."""
        found: Committable = self._process.step(self._sink.prepare, transaction)
        return found

    def commit(self, committable: Committable) -> None:
        """Commit them."""
        self._process.step(self._sink.commit, committable)

    def abort(self, transaction: Any) -> None:
        """Drop them."""
        self._process.step(self._sink.abort, transaction)

    def recover(self, stale: Stale) -> None:
        """End what lost."""
        self._process.step(self._sink.recover, stale)

    def own(self, prefix: str, epoch: int, owner: str) -> None:
        """Take the sink."""
        self._process.step(self._sink.own, prefix, epoch, owner)

    def open(self, turn: Turn) -> Any:
        """Get ready for a batch."""
        return self._process.step(self._sink.open, turn)

    def confirm(self, committables: Sequence[Committable]) -> None:
        """Look whether all can be committed."""
        self._process.step(self._sink.confirm, committables)


class MortalFolder:
    """A folder as one process sees it."""

    def __init__(self, folder: Folder, process: Process) -> None:
        self._folder, self._process = folder, process

    @property
    def root(self) -> str:
        """Where the folder lies."""
        return self._folder.root

    def names(self) -> list[str]:
        """Return the names of the files."""
        found: list[str] = self._process.step(self._folder.names)
        return found

    def read(self, name: str) -> bytes | None:
        """Return a file's bytes."""
        found: bytes | None = self._process.step(self._folder.read, name)
        return found

    def create(self, name: str, data: bytes) -> bool:
        """Make a file."""
        made: bool = self._process.step(self._folder.create, name, data)
        return made

    def delete(self, name: str) -> None:
        """Remove a file."""
        self._process.step(self._folder.delete, name)


class InTurn(Executor):
    """Runs what it is given at once, one after another, so that steps have one order."""

    def __init__(self, _workers: int = 1) -> None:
        pass

    def submit(self, act: Callable[..., Any], /, *args: Any, **more: Any) -> Future[Any]:
        """Run it now."""
        future: Future[Any] = Future()
        try:
            future.set_result(act(*args, **more))
        except BaseException as error:  # noqa: BLE001 - the future hands it on
            future.set_exception(error)
        return future
