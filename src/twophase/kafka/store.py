"""Kafka as a store of batches: one transactional id and one marker per sink."""

import time

from twophase.commit.effects import WriteMarker
from twophase.commit.marker import Marker, Unreadable, read_marker
from twophase.commit.naming import SinkName
from twophase.commit.recovery import LastTransaction
from twophase.errors import CommitOutcomeUnknown, CommitRejected, Fenced, StoreUnavailable
from twophase.kafka.admin import TransactionDescription, describe_transaction
from twophase.kafka.claims import last_of, time_limit_ms, witnessed
from twophase.kafka.identity import Identity, TopicPartition
from twophase.kafka.offsets import CommittedOffset, read_offsets, write_offsets
from twophase.kafka.transactions import Claiming, Transactions
from twophase.kafka.wire import Wire
from twophase.sink import ReacquireStopped

_TAKES_MAX = 3


class KafkaStore:
    """The transactions and the marker of one sink, or of one run of a batch job.

    The marker is a committed offset of partition 0 of `marker_topic`. Its offset is the end that
    the sink has reached there, so that a lag monitor shows about nothing instead of nonsense.
    """

    def __init__(self, wire: Wire, name: SinkName, marker_topic: str) -> None:
        self._wire = wire
        self._name = name
        self._place = TopicPartition(marker_topic, 0)
        self._transactions = Transactions(wire)
        self._seen: TransactionDescription | None = None
        self._founded = True
        self._reached = 0

    def describe_last(self) -> LastTransaction:
        """Return how the id's last transaction ended, and change nothing."""
        self._seen = describe_transaction(self._wire, self._name.transactional_id)
        last = last_of(self._seen)
        self._founded = last is not LastTransaction.NEVER_WAS
        return last

    def own(self) -> tuple[Identity, LastTransaction]:
        """Take the id, end what is open, and say what of the look still holds."""
        for _ in range(_TAKES_MAX):
            identity = self._take()
            last = witnessed(self._seen, identity)
            if self._founded or last is not LastTransaction.UNKNOWN:
                break
            # A lost answer made us take a new id twice, so that the look proves nothing any more:
            # look and take again, as the next start would.
            self.describe_last()
        return identity, last

    def _take(self) -> Identity:
        return self._transactions.own(self._name.transactional_id, timeout_ms=self._limit_ms)

    def reacquire(self, identity: Identity) -> tuple[Identity, LastTransaction]:
        """Return a fresh identity and how the old one's transaction ended; `Fenced` if a rival."""
        claiming = Claiming(identity)
        try:
            return self._transactions.proceed(claiming, timeout_ms=self._limit_ms), claiming.last
        except Fenced:
            raise
        except (StoreUnavailable, CommitRejected, CommitOutcomeUnknown) as error:
            raise ReacquireStopped(error, claiming.last, claiming.identity) from error

    @property
    def _limit_ms(self) -> int:
        return time_limit_ms(self._wire.options.transaction_timeout_ms, founded=self._founded)

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
            time_ms=int(time.time() * 1000),
            offset=self._reached,
        )
        committed = CommittedOffset(marker.offset, marker.to_text())
        write_offsets(self._wire, identity, self._name.marker_group, {self._place: committed})
        return marker

    def commit(self, identity: Identity) -> Identity | None:
        """Make the transaction visible; the next identity under version 2."""
        following = self._transactions.commit(identity)
        self._founded = True
        return following
