"""A simulated wire: the package's own requests go to the simulated broker, real answers come back.

The process that asks stands still at every request, until the history lets it go on: with the
answer, without one, or never.
"""

from types import SimpleNamespace

from kafka.protocol.admin.transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse
from kafka.protocol.producer.transaction import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from simulation.broker import CONCURRENT, DISORDER, FENCED, OK, STALE, STATE, UNSTABLE, V1, V2

from twophase.errors import StoreUnavailable

# The coordinator has lost its role: what was asked may have been done or not.
MOVED = "NOT_COORDINATOR"
CODES = {OK: 0, MOVED: 16, DISORDER: 45, STALE: 47, STATE: 48, CONCURRENT: 51, UNSTABLE: 88}
CODES |= {FENCED: 90}
NOT_FOUND = 105
ROUND_TRIP_S = 0.005
# A handful of asks, with the pauses between them.
MAX_BLOCK_MS = 220


class Clock:
    """Time that passes only by asking and waiting."""

    def __init__(self):
        self.time_s = 0.0

    def now_s(self):
        return self.time_s

    def wall_ms(self):
        return round(self.time_s * 1000)

    def sleep(self, seconds):
        self.time_s += seconds


class SimulatedWire:
    """What `twophase.kafka.wire.Wire` is to the code above it; finding a coordinator is free."""

    broken = False

    def __init__(self, process, version):
        self.process, self.version = process, version
        self.clock = Clock()
        self.options = SimpleNamespace(
            max_block_ms=MAX_BLOCK_MS, transaction_timeout_ms=process.timeout_ms
        )

    def coordinator(self, _kind, _key, _limit_ms=None):
        return 0

    def forget_coordinator(self, _kind, _key):
        """Nothing is remembered."""

    def transaction_version(self):
        """ApiVersions: a question like any other, for a node that may not answer."""
        self.answer(("version",))
        return self.version

    def ask(self, request, _node=None):
        """Stand still until the history brings an answer, or none."""
        translate, answer = TRANSLATIONS[type(request)]
        return answer(request, self.answer(translate(request)))

    def answer(self, call):
        self.clock.sleep(ROUND_TRIP_S)
        found = self.process.ask(call)
        if found is None:
            raise StoreUnavailable("no answer")
        return found


def code(answer):
    """The error code of a simulated answer: a name, or a name and what comes along."""
    return CODES[answer if isinstance(answer, str) else answer[0]]


def identity_of(request):
    return (request.producer_id, request.producer_epoch)


def described(request, found):
    state_of = DescribeTransactionsResponse.TransactionState
    given = {"error_code": NOT_FOUND if found == (None,) else code(OK if found != MOVED else MOVED)}
    if found not in {MOVED, (None,)}:
        ((state, producer_id, epoch, timeout_ms),) = found
        given |= {"transaction_state": str(state), "transaction_timeout_ms": timeout_ms}
        given |= {"producer_id": producer_id, "producer_epoch": epoch, "topics": []}
    (name,) = request.transactional_ids
    return DescribeTransactionsResponse(
        transaction_states=[state_of(transactional_id=name, **given)]
    )


def initialised(_request, found):
    producer_id, epoch = (found[1] if found != MOVED else None) or (-1, -1)
    return InitProducerIdResponse(
        error_code=code(found), producer_id=producer_id, producer_epoch=epoch
    )


def ended(_request, found):
    producer_id, epoch = (found[1] if found != MOVED else None) or (-1, -1)
    return EndTxnResponse(error_code=code(found), producer_id=producer_id, producer_epoch=epoch)


def added(request, found):
    of_topic = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    of_partition = of_topic.AddPartitionsToTxnPartitionResult
    (topic,) = request.v3_and_below_topics
    results = [
        of_partition(partition_index=index, partition_error_code=code(found))
        for index in topic.partitions
    ]
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[of_topic(name=topic.name, results_by_partition=results)]
    )


def marker_in(request):
    """What a TxnOffsetCommit writes: offset and metadata of its one partition."""
    ((partition,),) = (topic.partitions for topic in request.topics)
    return (partition.committed_offset, partition.committed_metadata)


def offset_committed(request, found):
    of_topic = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
    row = of_topic.TxnOffsetCommitResponsePartition(partition_index=0, error_code=code(found))
    (topic,) = request.topics
    return TxnOffsetCommitResponse(topics=[of_topic(name=topic.name, partitions=[row])])


def fetched(request, found):
    if found == MOVED:
        return OffsetFetchResponse(error_code=code(found), topics=[])
    of_topic = OffsetFetchResponse.OffsetFetchResponseTopic
    offset, metadata = found[1] or (-1, "")
    row = of_topic.OffsetFetchResponsePartition(
        partition_index=0, committed_offset=offset, metadata=metadata, error_code=code(found)
    )
    (topic,) = request.topics
    return OffsetFetchResponse(error_code=0, topics=[of_topic(name=topic.name, partitions=[row])])


# How each request is told to the broker, and how its answer is told to the asker.
TRANSLATIONS = {
    DescribeTransactionsRequest: (lambda _: ("look",), described),
    InitProducerIdRequest: (
        lambda r: ("init", r.producer_id, r.producer_epoch, r.transaction_timeout_ms),
        initialised,
    ),
    EndTxnRequest: (
        lambda r: ("end", identity_of(r), V2 if r._max_version > 4 else V1, r.committed),
        ended,
    ),
    AddPartitionsToTxnRequest: (
        lambda r: (
            "add_partitions",
            (r.v3_and_below_producer_id, r.v3_and_below_producer_epoch),
            tuple(r.v3_and_below_topics[0].partitions),
        ),
        added,
    ),
    AddOffsetsToTxnRequest: (
        lambda r: ("add_offsets", identity_of(r)),
        lambda _, found: AddOffsetsToTxnResponse(error_code=code(found)),
    ),
    TxnOffsetCommitRequest: (
        lambda r: ("commit_offset", identity_of(r), marker_in(r)),
        offset_committed,
    ),
    OffsetFetchRequest: (lambda r: ("fetch" if r.require_stable else "peek",), fetched),
}
