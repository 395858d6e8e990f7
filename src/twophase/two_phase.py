"""`TwoPhaseCommitSink`: what a store must be able to do to be written exactly once, task by task.

A batch takes this way; on the left who calls:

    driver     own, recover                          at its start only
    driver     open                                  what the tasks will need, if anything
    executor   begin, write, write, ..., prepare     one transaction for each task that has rows
    driver     confirm                               all of them, before anything is decided
    driver     (the decision log)                    from here on the batch is in the store
    driver     commit                                each committable, several at a time
    driver     recover                               end what lost: nobody will ever commit it

Whatever dies, and wherever: a batch that is decided is committed again by the next driver,
committable by committable; everything else is ended by `recover`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import pyarrow as pa

from twophase.commit.attempts import Attempt, Stale, Turn
from twophase.errors import TwoPhaseError
from twophase.log.decision import Committable

T = TypeVar("T")


class TwoPhaseCommitSink(ABC, Generic[T]):
    """A store that can promise, in one process, what another process then makes visible.

    **Pickling.** The sink goes to the executors by pickle, and so must its settings; connections
    are opened where they are used. What `begin` returns stays in the process that made it.

    **Names.** `attempt.name` is unique for ever. A transaction must be found by it later, in
    another process, by nothing but the store.

    **Committables** are dicts of JSON values: text, whole numbers, booleans, None, lists and dicts
    of these. All that `commit` needs is in them, and no secret: they are written to the decision
    log.

    **Time.** `time_limit_s` is how long the store keeps a transaction from `begin` on; None means
    for ever. At 80 % of it the driver warns. A batch whose tasks took 95 % of it is not decided:
    commits need time too. Where the tasks run again, only the last run counts.

    Raise `StoreUnavailable` where trying again may help; of any other error of `commit` the driver
    makes no second try, and the query stops.
    """

    time_limit_s: float | None = None

    @abstractmethod
    def begin(self, attempt: Attempt) -> T:
        """Open a transaction. Executor; once for an attempt, before its first rows."""

    @abstractmethod
    def write(self, transaction: T, rows: pa.RecordBatch) -> None:
        """Write rows that nobody may see yet. Executor; in the process of `begin`."""

    @abstractmethod
    def prepare(self, transaction: T) -> Committable:
        """Make the rows durable and the commit certain. Executor; the transaction's last call.

        Once it has returned, the death of this process changes nothing.
        """

    @abstractmethod
    def commit(self, committable: Committable) -> None:
        """Make the rows visible. Driver; any number of times, in any process, also side by side.

        Returns only if they are visible, by this call or an earlier one. Raises `CommittableLost`
        only if they are not and never will be.
        """

    @abstractmethod
    def abort(self, transaction: T) -> None:
        """Drop what was written. Executor; once, after an error in `write` or `prepare`.

        Also where `prepare` returned what is no committable; what stays prepared then is ended by
        `recover`.
        """

    @abstractmethod
    def recover(self, stale: Stale) -> None:
        """End every transaction whose name is in `stale`, begun or prepared. Driver; often.

        They are found in the store by `stale.prefix`; `name in stale` says whether to end one. A
        zombie may still write to one of them, and must not succeed in preparing it afterwards, or
        is found by the next `recover`.
        """

    def own(self, prefix: str, epoch: int, owner: str) -> None:
        """Raise `OwnedByAnother` where another query writes under these names. Driver; first."""

    def open(self, turn: Turn) -> Any:
        """Return what `begin` finds in `attempt.given`: picklable. Driver; before the tasks run."""

    def confirm(self, committables: Sequence[Committable]) -> None:
        """Raise where one cannot be committed any more. Driver; before the batch is decided."""

    def again(self, error: TwoPhaseError) -> bool:  # noqa: ARG002
        """Return whether the tasks would fare better at once. Driver; after `error` of one of them.

        What they have begun is ended by `recover` first, and a batch has three runs at most.
        """
        return False

    def check(self, schema: pa.Schema) -> None:
        """Raise `ConfigurationError` where rows of this schema do not fit. Driver; first of all."""
