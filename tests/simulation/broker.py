"""A simulated broker for one transactional id: epochs, fences, sequences, markers, timeouts.

It answers as docs/design.md, section 8, tables it, and where real brokers of one version differ it
takes the harsher one (version 1 as Kafka 3.9). A request is one call; whether it is lost, late or
repeated is the network's business (history.py).
"""

from collections import deque
from dataclasses import dataclass, field

from twophase.kafka.admin import TransactionState
from twophase.kafka.identity import TransactionVersion

V1, V2 = TransactionVersion.V1, TransactionVersion.V2
S = TransactionState
PREPARING = (S.PREPARE_COMMIT, S.PREPARE_ABORT)

OK = "NONE"
FENCED = "PRODUCER_FENCED"
STALE = "INVALID_PRODUCER_EPOCH"
STATE = "INVALID_TXN_STATE"
CONCURRENT = "CONCURRENT_TRANSACTIONS"
DISORDER = "OUT_OF_ORDER_SEQUENCE_NUMBER"
UNSTABLE = "UNSTABLE_OFFSET_COMMIT"

REMEMBERED = 5
GROUP = "group"


@dataclass(slots=True)
class Entry:
    """One block in a partition's log."""

    rows: tuple
    batch: tuple
    state: str = "open"


@dataclass(slots=True)
class Lane:
    """What a partition knows of one producer id."""

    epoch: int
    next_sequence: int = 0
    recent: deque = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    in_transaction: bool = False


class Broker:
    """Coordinator, partitions and group of one transactional id."""

    def __init__(self, version, partitions, epoch_max):
        self.version = version
        self.epoch_max = epoch_max
        self.state = None
        self.timeout_ms = 0
        self.current = (-1, -1)
        self.last = None
        self.producer_ids = 0
        self.logs = [[] for _ in range(partitions)]
        self.lanes = [{} for _ in range(partitions)]
        self.members = set()
        self.marker = None
        self.pending_marker = None
        # How many owners the id has had: what the broker itself does not tell.
        self.generation = 0
        # How often the owner may have been fenced; more often, where it was all in vain.
        self.fences = 0
        self.founded = False

    def describe(self):
        """DescribeTransactions: state, producer id, epoch, timeout; None for an unknown id."""
        return None if self.state is None else (self.state, *self.current, self.timeout_ms)

    def init(self, producer_id, epoch, timeout_ms=60_000):
        """InitProducerId, bare with -1, or with the asker's producer id and epoch.

        Answers also with the owner's number, for the oracle.
        """
        asked = (producer_id, epoch)
        if self.state is None:
            self.generation += 1
            self._rest(self._new_id(), last=None, timeout_ms=timeout_ms)
            return OK, self.current, (self.generation, self.fences)
        if self.state in PREPARING:
            return CONCURRENT, None, None
        if producer_id >= 0 and self.state is not S.ONGOING:
            if asked == self.last:
                self.state, self.timeout_ms = S.EMPTY, timeout_ms
                return OK, self.current, (self.generation, self.fences)
            if asked != self.current:
                return FENCED, None, None
        if self.state is S.ONGOING:
            # The epochs are not compared before the open transaction is aborted; and Kafka 3.9 then
            # refuses even the owner whose own late request had opened it.
            self.fences += producer_id < 0 or self.version is V1
            self._abort_and_fence()
            return CONCURRENT, None, None
        if producer_id < 0:
            self.generation += 1
            self.fences += 1
        last = asked if producer_id >= 0 else None
        self._rest(self._raised(), last=last, timeout_ms=timeout_ms)
        return OK, self.current, (self.generation, self.fences)

    def add_partitions(self, identity, partitions):
        """AddPartitionsToTxn, of version 1 only."""
        code = self._join(identity)
        if code is OK:
            self.members.update(partitions)
        return code

    def produce(self, identity, partition, sequence, block):
        """Produce one block; `block` is (rows, batch)."""
        lane = self.lanes[partition].get(identity[0])
        inside = lane is not None and lane.in_transaction and lane.epoch == identity[1]
        if not inside:
            code = self._verify(identity, partition)
            if code is not OK:
                return code
        if lane is None or lane.epoch < identity[1]:
            if lane is not None and sequence != 0:
                return DISORDER
            # A partition that has never seen the producer id takes any sequence number.
            lane = self.lanes[partition][identity[0]] = Lane(identity[1], sequence)
        elif lane.epoch > identity[1]:
            return STALE
        if sequence in lane.recent:
            return OK
        if sequence != lane.next_sequence:
            return DISORDER
        lane.recent.append(sequence)
        lane.next_sequence = sequence + len(block[0])
        lane.in_transaction = True
        self.logs[partition].append(Entry(*block))
        return OK

    def add_offsets(self, identity):
        """AddOffsetsToTxn, of version 1 only."""
        return self.add_partitions(identity, (GROUP,))

    def commit_offset(self, identity, marker):
        """TxnOffsetCommit; `marker` is (offset, metadata)."""
        code = self._verify(identity, GROUP)
        if code is OK:
            self.pending_marker = marker
        return code

    def end(self, identity, version, *, commit):  # noqa: PLR0911 - one return per answer
        """EndTxn v4 or v5; answers with the identity that follows, under v5."""
        wanted = S.PREPARE_COMMIT if commit else S.PREPARE_ABORT
        done = S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT
        if version is V2 and identity == self.last and self.state in {wanted, done}:
            return (OK, self.current) if self.state is done else (CONCURRENT, None)
        if version is V2 and identity == self.last and self.state not in {S.EMPTY, S.ONGOING}:
            return STATE, None
        if identity != self.current:
            return FENCED, None
        if self.state in PREPARING:
            return (CONCURRENT if self.state is wanted else STATE), None
        if self.state is S.ONGOING:
            return OK, self._prepare(wanted, version)
        if version is V1:
            return (OK if self.state is done else STATE), None
        if commit:
            return STATE, None
        before = self.current
        self._rest(self._raised(), last=before, timeout_ms=self.timeout_ms)
        self.state = S.COMPLETE_ABORT
        return OK, self.current

    def fetch(self):
        """OffsetFetch with require_stable."""
        if self.pending_marker is not None:
            return UNSTABLE, None
        return OK, self.marker

    def peek(self):
        """OffsetFetch without require_stable: what was committed last, whatever is open."""
        return OK, self.marker

    def complete(self):
        """Write the end of a transaction out; until then most requests have to come again."""
        if self.state not in PREPARING:
            return
        commit = self.state is S.PREPARE_COMMIT
        self.state = S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT
        for log, lanes in zip(self.logs, self.lanes, strict=True):
            for entry in reversed(log):
                if entry.state != "open":
                    break
                entry.state = "committed" if commit else "aborted"
            for lane in lanes.values():
                lane.in_transaction = False
        if commit and self.pending_marker is not None:
            self.marker = self.pending_marker
            self.founded = True
        self.pending_marker = None
        self.members.clear()

    def expire(self):
        """Abort what is open, as the broker's own timeout does."""
        if self.state is S.ONGOING:
            self._abort_and_fence()

    def forget_marker(self):
        """Delete the group, as any tool can, also while a transaction is open."""
        self.marker = self.pending_marker = None

    def _verify(self, identity, partition):
        if self.version is V2:
            code = self._join(identity)
            if code is OK:
                self.members.add(partition)
            return code
        if identity != self.current:
            return STALE
        return OK if self.state is S.ONGOING and partition in self.members else STATE

    def _join(self, identity):
        if self.state is None or identity != self.current:
            return STALE
        if self.state in PREPARING:
            return CONCURRENT
        if self.version is V1 and self.state in {S.COMPLETE_COMMIT, S.COMPLETE_ABORT}:
            # A late request of the owner opens a transaction again under an epoch that has ended.
            self.fences += 1
        self.state = S.ONGOING
        return OK

    def _prepare(self, state, version):
        self.state = state
        if version is V2:
            before = self.current
            self.current = self._raised()
            self.last = before
            return self.current
        return None

    def _abort_and_fence(self):
        self.state = S.PREPARE_ABORT
        # Version 2 still knows the epoch before, and lets its owner go on; Kafka 3.9 does not.
        self.last = self.current if self.version is V2 else None
        self.current = (self.current[0], self.current[1] + 1)

    def _rest(self, identity, last, timeout_ms):
        self.state, self.current, self.last = S.EMPTY, identity, last
        self.timeout_ms = timeout_ms

    def _raised(self):
        producer_id, epoch = self.current
        return (producer_id, epoch + 1) if epoch + 1 < self.epoch_max else self._new_id()

    def _new_id(self):
        self.producer_ids += 1
        return (self.producer_ids, 0)
