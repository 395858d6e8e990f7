"""Kafka as a store of batches: one transactional id and one marker per sink."""

import logging

from twophase.commit.effects import WriteMarker
from twophase.commit.marker import Marker, Unreadable, read_marker
from twophase.commit.naming import SinkName
from twophase.commit.recovery import LastTransaction
from twophase.errors import (
    CommitOutcomeUnknown,
    CommitRejected,
    Fenced,
    StoreUnavailable,
    TwoPhaseError,
)
from twophase.kafka.admin import TransactionDescription, describe_transaction
from twophase.kafka.claims import last_of, witnessed
from twophase.kafka.coordinator import Unsettled
from twophase.kafka.ends import end_offsets
from twophase.kafka.founding import expected_epoch, time_limit_ms, unfounded
from twophase.kafka.identity import Identity, TopicPartition
from twophase.kafka.offsets import CommittedOffset, read_offsets, write_offsets
from twophase.kafka.patience import Patience
from twophase.kafka.progress import Progress
from twophase.kafka.transactions import Claiming, Transactions
from twophase.kafka.wire import Wire
from twophase.sink import ReacquireStopped

_log = logging.getLogger("twophase")

_PAUSE_S = 0.02
_END_EVERY_S = 10.0
# Long enough for a coordinator that has moved; a start without the peek is as right as one with it.
_PEEK_MS = 2_000


class KafkaStore:
    """The transactions and the marker of one sink, or of one run of a batch job.

    The marker is a committed offset of partition 0 of `marker_topic`. Its offset follows the end of
    that partition within seconds, so that a lag monitor shows about nothing instead of nonsense.
    """

    def __init__(
        self, wire: Wire, name: SinkName, marker_topic: str, *, longest_ms: int | None = None
    ) -> None:
        self._wire = wire
        self._name = name
        self._place = TopicPartition(marker_topic, 0)
        self._transactions = Transactions(wire)
        self.patience = Patience(wire.options.transaction_timeout_ms, longest_ms)
        self._seen: TransactionDescription | None = None
        self._founded = True
        self._claiming: Claiming | None = None
        self._reached = 0
        self._end = 0
        self._end_asked_s = -_END_EVERY_S
        self._source: tuple[int, str, Progress] | None = None

    def use(self, wire: Wire) -> None:
        """Go on over a new wire with all that is known."""
        self._wire, self._transactions = wire, Transactions(wire)

    def peek_marker(self) -> Marker | Unreadable | None:
        """Return the marker as it was committed last, whatever is open; wait for nothing.

        Of what it shows nothing is remembered: it may be older than what is true.
        """
        limit_ms = min(_PEEK_MS, self._wire.options.max_block_ms)
        found = read_offsets(
            self._wire, self._name.marker_group, [self._place], stable=False, limit_ms=limit_ms
        )
        committed = found.get(self._place)
        return None if committed is None else read_marker(committed.metadata, committed.offset)

    def describe_last(self) -> LastTransaction:
        """Return how the id's last transaction ended, and change nothing."""
        self._seen = describe_transaction(self._wire, self._name.transactional_id)
        self._founded = not unfounded(self._seen)
        return last_of(self._seen)

    def own(self) -> tuple[Identity, LastTransaction]:
        """Take the id, end what is open, and say what of the look still holds."""
        before = self._seen
        identity = self._take_as_new()
        if identity is None:
            identity = self._transactions.own(
                self._name.transactional_id, timeout_ms=self._limit_ms(None)
            )
            # What a later look shows may be our own doing: taking an id aborts what is open.
            first = self._seen is before
            return identity, witnessed(before, identity) if first else LastTransaction.UNKNOWN
        last = witnessed(self._seen, identity)
        if last is LastTransaction.NEVER_WAS and self.read_marker() is None:
            return identity, last
        # Rows are written under no identity whose time limit says that there are none.
        self._founded = True
        return self._transactions.reacquire(
            identity, timeout_ms=self._limit_ms(None)
        ), LastTransaction.UNKNOWN

    def _take_as_new(self) -> Identity | None:
        """Take the id of a sink without a row; None where a look says that it may have some.

        What the taker expects must be true when the broker acts on it, so nothing is asked twice
        without another look.
        """
        clock, limit_ms = self._wire.clock, self._wire.options.max_block_ms
        deadline = clock.now_s() + limit_ms / 1000
        while not self._founded:
            try:
                return self._transactions.own(
                    self._name.transactional_id,
                    timeout_ms=self._limit_ms(expected_epoch(self._seen)),
                    once=True,
                )
            except Unsettled as unsettled:
                if clock.now_s() + _PAUSE_S >= deadline:
                    raise StoreUnavailable(
                        f"the id of a new sink could not be taken within {limit_ms} ms "
                        f"(kafka.max.block.ms), last: {unsettled}",
                        transactional_id=self._name.transactional_id,
                    ) from unsettled
            clock.sleep(_PAUSE_S)
            self.describe_last()
        return None

    def reacquire(self, identity: Identity) -> tuple[Identity, LastTransaction]:
        """Return a fresh identity and how the old one's transaction ended; `Fenced` if a rival."""
        claiming = self._claiming
        if claiming is None or identity not in {claiming.began, claiming.identity}:
            claiming = self._claiming = Claiming(identity)
        try:
            fresh = self._transactions.proceed(claiming, self._limit_ms)
        except Fenced:
            raise
        except (StoreUnavailable, CommitRejected, CommitOutcomeUnknown) as error:
            raise ReacquireStopped(error, claiming.last, claiming.identity) from error
        finally:
            self._founded = self._founded or claiming.raised
        self._claiming = None
        return fresh, claiming.last

    def _limit_ms(self, epoch: int | None) -> int:
        """Return the transaction timeout to take the id with; `epoch` is to come, if certain."""
        configured_ms = self.patience.timeout_ms
        if self._founded or epoch is None:
            return time_limit_ms(configured_ms, founded=True)
        return time_limit_ms(configured_ms, founded=False, epoch=epoch)

    def judge(self, error: Exception, open_s: float) -> Exception:
        """Return what an error means that came while the transaction was open for `open_s`."""
        return self.patience.judge(error, open_s)

    def read_marker(self) -> Marker | Unreadable | None:
        """Return what lies in the marker's place, once nothing that writes it is open."""
        found = read_offsets(self._wire, self._name.marker_group, [self._place])
        committed = found.get(self._place)
        if committed is None:
            return None
        self._founded = True
        self._reached = committed.offset
        return read_marker(committed.metadata, committed.offset)

    def write_marker(self, identity: Identity, effect: WriteMarker) -> Marker:
        """Put the marker into the transaction and return it."""
        marker = Marker(
            owner=effect.owner,
            batch=effect.batch,
            offsets=effect.offsets,
            rows=effect.rows,
            bytes=effect.bytes,
            time_ms=self._wire.clock.wall_ms(),
            offset=max(self._reached, self._end),
        )
        committed = CommittedOffset(marker.offset, marker.to_text())
        write_offsets(self._wire, identity, self._name.marker_group, {self._place: committed})
        if self._source is not None and self._source[0] == effect.batch:
            _, group, progress = self._source
            read = {place: CommittedOffset(offset) for place, offset in progress.items()}
            write_offsets(self._wire, identity, group, read)
        return marker

    def accompany(self, batch: int, group: str | None, progress: Progress) -> None:
        """Let the transaction of this batch also say how far its Kafka sources were read."""
        self._source = (batch, group, progress) if group is not None and progress else None

    def follow_end(self) -> None:
        """Learn for later markers where the partition ends; no answer is no harm."""
        now_s = self._wire.clock.now_s()
        if now_s - self._end_asked_s < _END_EVERY_S:
            return
        self._end_asked_s = now_s
        try:
            self._end = end_offsets(self._wire, self._place.topic)[self._place.partition]
        except TwoPhaseError as error:
            _log.debug("the end of %s is not known: %s", self._place, error)

    def commit(self, identity: Identity) -> Identity | None:
        """Make the transaction visible; the next identity under version 2."""
        # From here on it may be visible, whatever is answered.
        self._founded = True
        return self._transactions.commit(identity)
