"""A simulated driver: performs the machine's effects against the simulated broker and Spark.

Every method that talks to somebody is a generator: it yields what it asks for and is sent the
answer, or `None` for no answer. So a history can stop it, lose an answer or let a rival go first at
every single request. `kafka/transactions.py` and `kafka/coordinator.py` do the same over a wire.
"""

from simulation.broker import CONCURRENT, FENCED, OK, STALE, STATE, UNSTABLE
from simulation.spark import PARTITIONS, materialise

from twophase.commit import effects as do
from twophase.commit import events as ev
from twophase.commit.machine import Machine
from twophase.commit.manifest import Fault
from twophase.commit.marker import Marker
from twophase.commit.recovery import LastTransaction
from twophase.commit.summary import PartitionSummary, Summary, digest
from twophase.errors import (
    CommitOutcomeUnknown,
    EpochStale,
    Fenced,
    InvalidState,
    StoreUnavailable,
)
from twophase.kafka.admin import TransactionState
from twophase.kafka.claims import Claim, claim
from twophase.kafka.identity import Identity, TransactionVersion

V1, V2 = TransactionVersion.V1, TransactionVersion.V2
Last = LastTransaction
ASKS_MAX = 6
LOOKS_MAX = 6
AGAIN = (None, CONCURRENT, UNSTABLE)
REFUSALS = {STALE: EpochStale("stale"), FENCED: EpochStale("fenced"), STATE: InvalidState("state")}
METHODS = {
    do.DescribeLast: "describe_last",
    do.Own: "own",
    do.Reacquire: "reacquire",
    do.ReadMarker: "read_marker",
    do.ReadBack: "read_marker",
    do.ExecutePlan: "execute_plan",
    do.Prepare: "prepare",
    do.Send: "send",
    do.WriteMarker: "write_marker",
    do.Commit: "commit",
}
ENDED = {
    TransactionState.PREPARE_COMMIT: Last.COMMITTED,
    TransactionState.COMPLETE_COMMIT: Last.COMMITTED,
    TransactionState.PREPARE_ABORT: Last.ABORTED,
    TransactionState.COMPLETE_ABORT: Last.ABORTED,
}


class SinkError(Exception):
    """What the sink raised to Spark."""

    def __init__(self, error):
        super().__init__(str(error))
        self.error = error


class Lost(Exception):
    """No decisive answer came."""


class Driver:
    """One process's sink object."""

    machine_class = Machine

    def __init__(self, version, rng, faults):
        self.version = version
        self.rng = rng
        self.faults = faults
        self.machine = self.machine_class()
        self.generation = self.fences = 0
        self.blocks = None
        self.attempts = 0
        self.clock_ms = 0
        self.sending = []

    def offsets_hash(self, offsets):
        """The hash of offsets/N; here the offsets themselves."""
        return offsets

    def run(self, run_id):
        """The run id that the machine is told."""
        return run_id

    def batch(self, run_id, batch, rows):
        """One call of the sink by Spark."""
        self.rows, self.at = rows, batch
        self.planned = f"{rows.start}-{rows.stop}"
        event = ev.BatchArrived(run_id, batch)
        while True:
            effect = self.machine.handle(event)
            yield ("effect", type(effect).__name__)
            if isinstance(effect, do.Finished):
                return effect
            if isinstance(effect, do.Raise):
                raise SinkError(effect.error)
            if self.faults.interrupt():
                event = ev.Interrupted(StoreUnavailable("interrupted"))
                continue
            try:
                event = yield from getattr(self, METHODS[type(effect)])(effect)
            except Lost:
                event = ev.Interrupted(StoreUnavailable("no answer"))

    def ask(self, *request):
        """Ask until an answer is decisive."""
        for _ in range(ASKS_MAX):
            answer = yield request
            if (answer if answer is None or isinstance(answer, str) else answer[0]) not in AGAIN:
                return answer
        raise Lost

    def look(self):
        """DescribeTransactions: no answer is an answer only if it was given."""
        for _ in range(ASKS_MAX):
            answer = yield ("look",)
            if answer is not None:
                return answer[0]
        raise Lost

    def describe_last(self, _effect):
        self.seen = yield from self.look()
        return ev.LastTransactionSeen(Last.UNKNOWN)

    def own(self, _effect):
        found = yield from self.take()
        return ev.Owned(Identity("sink", *found, self.version), self.witness(self.seen, found))

    def witness(self, seen, found):
        """The second witness: only where the id was taken right after what was seen.

        Every end of a transaction raises the epoch under version 2, so an epoch that follows shows
        that nothing happened in between. Under version 1 it does not; and a late AddPartitionsToTxn
        opens a transaction again after its commit, so that an abort says nothing either.
        """
        if seen is None:
            return Last.NEVER_WAS if found == (1, 0) else Last.UNKNOWN
        if found != (seen.producer_id, seen.epoch + 1):
            return Last.UNKNOWN
        if seen.state is TransactionState.EMPTY:
            # The first owner of a new id: nothing can have been committed before it.
            return Last.NEVER_WAS if seen.producer_id == 1 and not seen.epoch else Last.UNKNOWN
        if seen.state is TransactionState.COMPLETE_ABORT and self.version is V2:
            return Last.ABORTED
        return Last.UNKNOWN

    def take(self):
        """InitProducerId in its bare form."""
        _, found, (self.generation, self.fences) = yield from self.ask("init", -1, -1)
        self.faults.holds(self, found)
        return found

    def reacquire(self, effect):
        identity, last = effect.identity, Last.UNKNOWN
        try:
            for _ in range(LOOKS_MAX):
                seen = yield from self.look()
                last = self.fate(seen)
                way = claim(identity, seen)
                match way:
                    case Claim.FENCED:
                        return ev.FencedOff(Fenced("a newer owner has a transaction open"))
                    case Claim.ABORT_THEN_ASK:
                        event = yield from self.end(identity, commit=False)
                        if not isinstance(event, ev.Committed):
                            continue
                        last = self.fate_after_abort()
                        identity = event.next_identity or identity
                    case Claim.ASK_WITH_NEXT_EPOCH:
                        identity = identity.successor(identity.producer_id, identity.epoch + 1)
                code, found, owner = yield from self.ask("init", *self.key(identity))
                if code is FENCED:
                    return ev.FencedOff(Fenced("init"))
                if way is Claim.ASK_WITH_NEXT_EPOCH:
                    found = yield from self.made_unique(found)
                else:
                    self.faults.reacquired(self.generation, owner[0])
                self.faults.holds(self, found)
                return ev.Reacquired(identity.successor(*found), last)
        except Lost:
            pass
        return ev.ReacquireFailed(StoreUnavailable("no answer"), last, identity)

    def made_unique(self, _found):
        """The epoch that a timeout raised may be a rival's, who asks with it too and would be given
        the same identity; the bare form cuts that off.
        """
        return (yield from self.take())

    def fate(self, seen):
        """How our transaction ended, by a look that shows it ended."""
        last = ENDED.get(seen.state, Last.UNKNOWN) if seen is not None else Last.UNKNOWN
        return last if last is Last.COMMITTED or self.version is V2 else Last.UNKNOWN

    def fate_after_abort(self):
        """How our transaction ended that we found open and aborted."""
        return Last.ABORTED if self.version is V2 else Last.UNKNOWN

    def read_marker(self, _effect):
        try:
            _, marker = yield from self.ask("fetch")
        except Lost:
            return ev.MarkerUnread(StoreUnavailable("no answer"))
        return ev.MarkerRead(marker)

    def execute_plan(self, _effect):
        yield ("step",)
        return ev.PlanExecuted()

    def prepare(self, _effect):
        yield ("step",)
        rerun = self.faults.rerun()
        self.blocks = materialise(self.rows, self.attempts, rerun=rerun)
        self.attempts += 2
        found = self.checked()
        if isinstance(found, Fault):
            return ev.PrepareFailed(found.reason)
        return ev.Prepared(found)

    def checked(self):
        """What the blocks hold, if they are one whole version."""
        return self.blocks.check()

    def send(self, effect):
        if self.faults.blocks_lost():
            return ev.BlocksLost("an executor is gone")
        identity, tag = effect.identity, (self.at.owner, self.at.number, self.planned)
        summary = effect.summary
        where = [found.partition for found in summary.partitions]
        try:
            if self.version is V1:
                answer = yield from self.ask("add_partitions", self.key(identity), tuple(where))
                if answer is not OK:
                    return ev.SendFailed(REFUSALS[answer])
            sent = []
            for partition in where:
                if self.faults.torn_sender():
                    wrong = materialise(self.rows, self.attempts + 1).blocks[partition]
                    yield from self.send_task(identity, partition, wrong[:1], tag)
                    if not self.lets_retry():
                        return ev.SendFailed(StoreUnavailable("a send task was started again"))
                blocks = self.blocks.blocks[partition]
                failed = yield from self.send_task(identity, partition, blocks, tag)
                if failed is not None:
                    return ev.SendFailed(failed)
                sent.append(summed(partition, blocks))
        except Lost:
            return ev.SendFailed(StoreUnavailable("no answer"))
        finally:
            self.sending = []
        return ev.Sent(Summary(tuple(sent)))

    def send_task(self, identity, partition, blocks, tag):
        """One send task: its blocks in order, each until it is acknowledged."""
        sequence = 0
        requests = []
        for block in blocks:
            payload = (block.rows, tag)
            requests.append(("produce", self.key(identity), partition, sequence, payload))
            sequence += len(block.rows)
        # What a killed driver's executors still send.
        self.sending = list(requests)
        for request in requests:
            answer = yield from self.ask(*request)
            if answer is not OK:
                return REFUSALS.get(answer) or InvalidState(answer)
            self.sending.pop(0)
        return None

    def lets_retry(self):
        """Whether a send task that was started again may send."""
        return False

    def write_marker(self, effect):
        self.clock_ms += 1
        marker = Marker(
            effect.owner,
            effect.batch,
            effect.offsets,
            effect.rows,
            effect.bytes,
            self.clock_ms,
            PARTITIONS,
        )
        try:
            answer = yield from self.ask("commit_offset", self.key(effect.identity), marker)
        except Lost:
            return ev.MarkerFailed(StoreUnavailable("no answer"))
        if answer is not OK:
            return ev.MarkerFailed(REFUSALS[answer])
        return ev.MarkerWritten(marker)

    def commit(self, effect):
        return (yield from self.end(effect.identity, commit=True))

    def end(self, identity, *, commit):
        """EndTxn: once an ask is in doubt, only success is believed."""
        doubt = False
        for _ in range(ASKS_MAX):
            answer = yield ("end", self.key(identity), self.end_version(), commit)
            if answer is None or answer[0] is CONCURRENT:
                doubt = True
                continue
            code, found = answer
            if code is OK:
                following = self.following(identity, found)
                return ev.Committed(following)
            if doubt:
                break
            return ev.CommitRefused(REFUSALS[code])
        return ev.CommitUnknown(CommitOutcomeUnknown("no decisive answer"))

    def end_version(self):
        """The version of EndTxn, which belongs to the transaction."""
        return self.version

    def following(self, identity, found):
        """The identity of the next transaction."""
        return identity.successor(*found) if found is not None else None

    @staticmethod
    def key(identity):
        """Producer id and epoch."""
        return (identity.producer_id, identity.epoch)


def summed(partition, blocks):
    """What a send task reports of what it sent."""
    labels = [block.label for block in blocks]
    return PartitionSummary(
        "topic",
        partition,
        len(labels),
        sum(label.rows for label in labels),
        sum(label.bytes for label in labels),
        digest(label.checksum for label in labels),
    )
