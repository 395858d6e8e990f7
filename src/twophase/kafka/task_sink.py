"""`KafkaTaskSink`: Kafka in task scope, one transaction for each task of a batch.

Which identity an attempt writes under is in `tickets`, where identities come from in `pool`, what
became of a committable in `fate`, what ends lingering transactions in `lingering`, who may write at
all in `ownership`.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa

from twophase.commit.attempts import Attempt, Stale, Turn, name_of
from twophase.errors import (
    BlockRefused,
    CommitOutcomeUnknown,
    CommittableLost,
    ConfigurationError,
    EpochStale,
    InvalidState,
    StoreUnavailable,
    TwoPhaseError,
)
from twophase.kafka.admin import describe_transaction
from twophase.kafka.asking import ask_each
from twophase.kafka.columns import check_schema
from twophase.kafka.counts import ask_partition_counts
from twophase.kafka.dead_letters import DeadLetters, is_unexplained
from twophase.kafka.fate import Fate, fate_of
from twophase.kafka.fitness import check_fit
from twophase.kafka.identity import Identity
from twophase.kafka.lingering import driver_base, end_all, epoch_in, guessed, listed
from twophase.kafka.options import KafkaOptions
from twophase.kafka.ownership import Ownership
from twophase.kafka.pool import Pool
from twophase.kafka.task_writer import TaskWriter, identity_in
from twophase.kafka.tickets import take_identity
from twophase.kafka.transactions import Transactions
from twophase.kafka.wire import Wire
from twophase.kafka.wires import shared_wire
from twophase.log.decision import Committable
from twophase.two_phase import TwoPhaseCommitSink

POOL_SIZE: Final = 1_000
# What holds unless the user says: Kafka's own default of transaction.max.timeout.ms, since what is
# prepared must outlive the slowest task, and a restart of the driver.
DEFAULTS: Final = {"kafka.transaction.timeout.ms": "900000"}
# The broker counts on in 16 bits, and a batch draws all its tickets from one id.
_POOL_SIZE_MAX: Final = 10_000
# Kafka drops a marker that is older than offsets.retention.minutes, a week unless set otherwise.
_NOTED_EVERY_S: Final = 3600.0


class KafkaTaskSink(TwoPhaseCommitSink[TaskWriter]):
    """Rows to `topic`, or to that of their column; at most `pool_size` attempts in a batch.

    Those that cannot be written go to `dead_letter_topic`, or, without one, fail the batch.
    """

    def __init__(
        self,
        options: KafkaOptions,
        topic: str | None,
        marker_topic: str,
        pool_size: int = POOL_SIZE,
        dead_letter_topic: str | None = None,
    ) -> None:
        if not isinstance(pool_size, int) or not 1 <= pool_size <= _POOL_SIZE_MAX:
            raise ConfigurationError(
                f"pool_size is {pool_size!r}; allowed are whole numbers from 1 to {_POOL_SIZE_MAX}"
            )
        self._options = options
        self._topic, self._marker_topic = topic, marker_topic
        self._pool_size = pool_size
        self._dead_letter_topic = dead_letter_topic
        self._strict = False
        self.time_limit_s = options.transaction_timeout_ms / 1000
        self._pool: Pool | None = None
        self._opened: set[str] = set()
        self._swept: set[str] = set()
        # The owner under whose name each run was noted at the brokers, and when.
        self._noted: dict[str, tuple[str, float]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings: the identities of a batch go to its tasks by their turn."""
        return vars(self) | {"_pool": None, "_opened": set(), "_swept": set(), "_noted": {}}

    def __repr__(self) -> str:
        return f"<KafkaTaskSink to {self._topic or 'the topic column'}>"

    def check(self, schema: pa.Schema) -> None:
        """Compare with a Kafka record's columns; look whether the topics are there."""
        check_schema(schema, topic_needed=self._topic is None)
        topics = (self._topic, self._marker_topic, self._dead_letter_topic)
        ask_partition_counts(self._wire(), [name for name in topics if name])

    def own(self, prefix: str, epoch: int, owner: str) -> None:
        """Refuse brokers that cannot keep the promise, and a sink id that is another query's."""
        check_fit(self._wire())
        self._note(prefix, epoch, owner)

    def open(self, turn: Turn) -> Any:
        """Return the hand that the batch's attempts draw from."""
        # Runs side by side share this object, and a job that of a query.
        owner, noted_s = self._noted.get(turn.prefix, ("", 0.0))
        if owner and self._wire().clock.now_s() - noted_s >= _NOTED_EVERY_S:
            self._note(turn.prefix, turn.epoch, owner, again=True)
        base = driver_base(turn.prefix, turn.epoch)
        self._opened.add(base)
        pool = self._pool
        if pool is None or pool.base != base:
            pool = self._pool = Pool(self._wire, base, self._pool_size)
        return pool.open()

    def begin(self, attempt: Attempt) -> TaskWriter:
        """Draw an identity; the broker opens the transaction with the first rows."""
        wire = self._wire()
        identity = take_identity(wire, attempt.given)
        dead = self._dead_letters(attempt.prefix, attempt.batch)
        return TaskWriter(wire, identity, self._topic, spread_from=attempt.attempt, dead=dead)

    def write(self, transaction: TaskWriter, rows: pa.RecordBatch) -> None:
        """Encode and send."""
        transaction.write(rows)

    def prepare(self, transaction: TaskWriter) -> Committable:
        """Wait for the last acknowledgement."""
        return transaction.finish()

    def abort(self, transaction: TaskWriter) -> None:
        """End it; where the broker has nothing of it, or has ended it, that is done already."""
        transaction.drop()
        with suppress(InvalidState, EpochStale):
            Transactions(self._wire()).abort(transaction.identity)

    def commit(self, committable: Committable) -> None:
        """Ask; where the answer is no, or none, look what became of it."""
        identity = identity_in(committable)
        wire = self._wire()
        try:
            following = Transactions(wire).commit(identity)
        except (EpochStale, InvalidState, CommitOutcomeUnknown) as error:
            self._judge(wire, identity, committable, error)
            return
        if following is not None and self._pool is not None:
            self._pool.note(following)

    def recover(self, stale: Stale) -> None:
        """End what drivers have open that can decide nothing any more; ids do not say the batch."""
        if not stale.ended:
            return
        wire = self._wire()
        names = listed(wire, stale.prefix, stale.ended)
        if names is not None:
            end_all(wire, names)
            return
        # Runs side by side share this object: the pool may be that of another one, at work.
        pool = self._pool
        own = None if pool is None else epoch_in(stale.prefix, f"{pool.base}1")
        if pool is not None and own in stale.ended:
            end_all(wire, pool.ids())
        for epoch in self._ownership(stale.prefix).epochs():
            base = driver_base(stale.prefix, epoch)
            if epoch in stale.ended and epoch != own and base not in self._swept:
                end_all(wire, guessed(wire, stale.prefix, epoch))
                # A driver of this process may open more.
                if base not in self._opened:
                    self._swept.add(base)

    def confirm(self, committables: Sequence[Committable]) -> None:
        """See each of them open at its coordinator."""
        wire = self._wire()

        def look(committable: Committable) -> tuple[Committable, Fate]:
            identity = identity_in(committable)
            seen = describe_transaction(wire, identity.transactional_id)
            return committable, fate_of(identity, seen)

        found = ask_each(look, committables)
        gone = [identity_in(each) for each, fate in found if fate is not Fate.OPEN]
        if gone:
            raise InvalidState(
                f"{len(gone)} of {len(found)} transactions of the batch are not open any more: the "
                "broker's timeout (kafka.transaction.timeout.ms), or another driver; nothing is "
                "decided, the batch has to be run again",
                **gone[0].ids(),
            )

    def again(self, error: TwoPhaseError) -> bool:
        """Look closer at rows after a broker has refused some, where they may be dead letters."""
        if not isinstance(error, BlockRefused):
            return False
        if self._dead_letter_topic is None or is_unexplained(error):
            return False
        # Runs side by side share this object: one that began before another set it is to go again.
        self._strict = True
        return True

    def _dead_letters(self, prefix: str, batch: int) -> DeadLetters | None:
        if self._dead_letter_topic is None:
            return None
        name = name_of(prefix)
        return DeadLetters(
            self._dead_letter_topic, name.sink_id, batch, name.run_id, strict=self._strict
        )

    @staticmethod
    def _judge(
        wire: Wire, identity: Identity, committable: Committable, error: TwoPhaseError
    ) -> None:
        """Return where it is committed; otherwise raise what is known."""
        fate = fate_of(identity, describe_transaction(wire, identity.transactional_id))
        if fate is Fate.COMMITTED:
            return
        if fate is Fate.OPEN:
            raise StoreUnavailable(f"not committed yet: {error.message}", **identity.ids())
        if fate is Fate.ABORTED:
            raise CommittableLost(
                f"Kafka has aborted it, by the transaction timeout or by an admin; its rows were "
                f"in {_places(committable)}",
                **identity.ids(),
            )
        raise CommitOutcomeUnknown(
            "whether the transaction was committed cannot be told any more: its id has moved on, "
            "or Kafka has forgotten it (transactional.id.expiration.ms); look for its rows in "
            f"{_places(committable)} ({error.message})",
            **identity.ids(),
        )

    def _note(self, prefix: str, epoch: int, owner: str, *, again: bool = False) -> None:
        self._ownership(prefix).take(owner, epoch, again=again)
        self._noted[prefix] = (owner, self._wire().clock.now_s())

    def _ownership(self, prefix: str) -> Ownership:
        return Ownership(self._wire(), name_of(prefix), self._marker_topic)

    def _wire(self) -> Wire:
        return shared_wire(self._options)


def _places(committable: Committable) -> str:
    """Say where the rows are, whether anybody sees them or not."""
    return (
        ", ".join(
            f"{name} from offset {first} to {following}"
            for name, first, following in committable.get("partitions", ())
        )
        or "no known place"
    )
