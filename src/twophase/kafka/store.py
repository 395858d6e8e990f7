"""Kafka as a store of batches: one transactional id and one marker per sink."""

import time

from twophase.commit.effects import WriteMarker
from twophase.commit.marker import Marker, Unreadable, read_marker
from twophase.commit.naming import SinkName
from twophase.commit.recovery import LastTransaction
from twophase.kafka.admin import describe_transaction
from twophase.kafka.claims import last_of, time_limit_ms
from twophase.kafka.identity import Identity, TopicPartition
from twophase.kafka.offsets import CommittedOffset, read_offsets, write_offsets
from twophase.kafka.transactions import Transactions
from twophase.kafka.wire import Wire


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
        self._founded = True
        self._reached = 0

    def describe_last(self) -> LastTransaction:
        """Return how the id's last transaction ended, and change nothing."""
        last = last_of(describe_transaction(self._wire, self._name.transactional_id))
        self._founded = last is not LastTransaction.NEVER_WAS
        return last

    def own(self) -> Identity:
        """Take the id from whoever has it, and end what is open."""
        return self._transactions.own(self._name.transactional_id, timeout_ms=self._limit_ms)

    def reacquire(self, identity: Identity) -> tuple[Identity, LastTransaction]:
        """Return a fresh identity and how the old one's transaction ended; `Fenced` if a rival."""
        return self._transactions.reacquire_seen(identity, timeout_ms=self._limit_ms)

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
