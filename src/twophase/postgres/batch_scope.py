"""Batch scope on PostgreSQL: the rows of all tasks and the marker in one SQL transaction.

What it must survive, and by what:

- **The driver dies**: before the commit nothing is visible, after it the marker says so. Staging
  tables that stay are dropped by the next driver.
- **An older driver lives on**, frozen and awake again: it finds a higher epoch in the marker's row,
  which it must lock before it writes. Frozen while it has the lock, the server ends its transaction
  after half a minute.
- **The commit's answer is lost**: the marker is read, behind the lock that the commit holds.
- **The server is killed**: staged rows are gone, and the count of them tells. It has forgotten a
  batch that it had committed: the marker is behind what this driver knows.
- **Attempts that lost** are in the staging table under another number, or still write to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import psycopg
import pyarrow as pa

from twophase.call_watch import CallWatch, Phase, Recovery
from twophase.clock import Clock
from twophase.commit.effects import Outcome
from twophase.commit.recovery import Batch
from twophase.commit.turns import Ended, Turns
from twophase.errors import CommitOutcomeUnknown, Fenced, ProtocolViolation, StoreUnavailable
from twophase.options import Secret
from twophase.postgres.connection import connected
from twophase.postgres.markers import Markers
from twophase.postgres.staging import Stage, Staging
from twophase.postgres.target import Target

_SETTLE_S: Final = 30.0
_POLL_S: Final = 0.2
# For each transaction that locks a marker. A commit that the server only promises could be gone
# after its crash, when the checkpoint has gone on.
_CAREFUL: Final = (
    "SET LOCAL idle_in_transaction_session_timeout = '30s'",
    "SET LOCAL lock_timeout = '120s'",
    "SET LOCAL jit = off",
    # Only where it is off: what asks for more than "on" stays.
    """SELECT set_config('synchronous_commit', 'on', true)
    WHERE current_setting('synchronous_commit') = 'off'""",
)


@dataclass(frozen=True, slots=True)
class Staged:
    """What the winning attempt of one task has staged."""

    task: int
    attempt: int
    rows: int
    bytes: int = 0


class Tasks(Protocol):
    """The tasks of one batch."""

    schema: pa.Schema

    def run(self, stage: Stage) -> Sequence[Staged]:
        """Run all, and return what the winning attempt of each has staged."""

    def execute(self) -> None:
        """Execute the plan and write nothing."""


class BatchScope:
    """One sink in one driver process; `name` is the sink's for ever, `schema` the table's."""

    def __init__(
        self, url: Secret, target: Target, schema: str, name: str, clock: Clock | None = None
    ) -> None:
        self._url = url
        self._target = target
        self._name = name
        self._markers = Markers(schema, name)
        self._staging = Staging(url, name, schema, target.table)
        self._turns = Turns(name)
        self._clock = clock or Clock()
        # Of the last claim, and of what was written since.
        self._epoch, self._last = 0, -1
        self._watch = CallWatch()

    def write(
        self, run_id: str, batch: Batch, tasks: Tasks, watch: CallWatch | None = None
    ) -> Ended:
        """Bring one batch into the table exactly once, or raise why a person has to look."""
        self._watch = watch or CallWatch()
        try:
            return self._write(run_id, batch, tasks)
        except Fenced as error:
            self._turns.fence(run_id, error)
            raise

    def _write(self, run_id: str, batch: Batch, tasks: Tasks) -> Ended:
        follows = self._turns.begin(run_id, batch)
        with connected(self._url) as connection:
            if not follows and self._claimed(connection, batch):
                self._watch.phase = Phase.ENCODE
                tasks.execute()
                self._turns.end()
                return Ended(Outcome.SKIPPED, 0, 0.0, 0.0, ())
            with connection.transaction():
                _be_careful(connection)
                names = tasks.schema.names
                stage = self._staging.make(connection, self._epoch, batch.number, names)
        try:
            ended = self._brought(batch, tasks, stage)
        except Exception:
            self._sweep()
            raise
        self._turns.end()
        return replace(ended, warnings=self._sweep())

    def _brought(self, batch: Batch, tasks: Tasks, stage: Stage) -> Ended:
        """Let the tasks stage their rows, and move them; from the return on they are there."""
        began_s = self._clock.now_s()
        self._watch.phase = Phase.SEND
        try:
            staged = tasks.run(stage)
        except Exception as error:
            self._raise_if_fenced(error)
            raise
        run_s = self._clock.now_s() - began_s
        self._watch.phase = Phase.COMMIT
        # The server ends it only where it is idle: it has no age at which it is too old.
        self._watch.opens(None)
        try:
            with connected(self._url) as connection:
                self._commit(connection, batch, stage, tasks.schema.names, staged)
            outcome = Outcome.COMMITTED
        except StoreUnavailable as error:
            self._settle(batch, error)
            outcome = Outcome.COMMITTED_BEFORE
            self._watch.recovered = Recovery.FOUND_COMMITTED
        self._watch.closes()
        self._last = batch.number
        commit_s = self._clock.now_s() - began_s - run_s
        rows, size = sum(each.rows for each in staged), sum(each.bytes for each in staged)
        return Ended(outcome, rows, run_s, commit_s, (), size)

    def _claimed(self, connection: psycopg.Connection[Any], batch: Batch) -> bool:
        """Take the sink; return whether the batch is there already."""
        self._watch.recovered = Recovery.STARTED
        self._markers.make(connection)
        with connection.transaction():
            _be_careful(connection)
            self._epoch, self._last = self._markers.claim(connection, batch)
        self._staging.sweep(connection, self._epoch)
        return self._last == batch.number

    def _commit(
        self,
        connection: psycopg.Connection[Any],
        batch: Batch,
        stage: Stage,
        names: list[str],
        staged: Sequence[Staged],
    ) -> None:
        tasks = [each.task for each in staged]
        if len(set(tasks)) != len(tasks):
            raise ProtocolViolation(f"two attempts of one task won: {sorted(tasks)}")
        rows = sum(each.rows for each in staged)
        attempts = [each.attempt for each in staged]
        with connection.transaction():
            _be_careful(connection)
            self._markers.check_last(connection, self._epoch, self._last)
            self._target.move(connection, stage, names, attempts, rows)
            self._markers.move(connection, batch, rows)

    def _settle(self, batch: Batch, error: StoreUnavailable) -> None:
        """Return where the commit was done all the same; else raise what it failed with."""
        deadline_s = self._clock.now_s() + _SETTLE_S
        while True:
            try:
                with connected(self._url) as connection, connection.transaction():
                    _be_careful(connection)
                    marker = self._markers.check_owned(connection, self._epoch)
            except StoreUnavailable as again:
                if self._clock.now_s() > deadline_s:
                    raise CommitOutcomeUnknown(
                        f"the commit of batch {batch.number} was not answered and the server does "
                        f"not come back ({again.message}); whether it is written is in its marker, "
                        "which the next start reads",
                        sink=self._name,
                    ) from error
            else:
                if marker.batch == batch.number:
                    return
                raise error
            self._clock.sleep(_POLL_S)

    def _raise_if_fenced(self, error: Exception) -> None:
        """Say so where the tasks failed because another driver has dropped their table."""
        try:
            with connected(self._url) as connection, connection.transaction():
                _be_careful(connection)
                self._markers.check_owned(connection, self._epoch)
        except Fenced as fenced:
            raise fenced from error
        except Exception:  # noqa: BLE001 - the first error is the one to tell
            return

    def _sweep(self) -> tuple[str, ...]:
        """Drop what is not needed any more; the batch is written, whatever this says."""
        try:
            with connected(self._url) as connection:
                return self._staging.sweep(connection, self._epoch)
        except Exception as error:  # noqa: BLE001
            return (f"staging tables could not be dropped: {error}",)


def _be_careful(connection: psycopg.Connection[Any]) -> None:
    connection.execute(";".join(_CAREFUL))
