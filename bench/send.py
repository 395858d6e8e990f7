"""Rows per second encoded, sent and acknowledged, beside confluent-kafka's produce() and flush().

Both write the same rows to a topic of the embedded broker, acknowledged by all replicas, and are
given them ready-made: ours as an Arrow batch, the peer as lists of bytes. Ours writes inside a
transaction, which is committed outside the measured time; the peer is idempotent, once as it comes
and once with large batches and a linger time. Broker and client share the machine's cores.
"""

import time
from collections.abc import Iterator
from uuid import uuid4

from confluent_kafka.admin import AdminClient, NewTopic

from bench.peer import produce
from bench.report import Figure
from bench.rows import UNIT, Rows, Shape
from twophase.kafka.compression import Codec
from twophase.kafka.identity import Identity
from twophase.kafka.options import KafkaOptions
from twophase.kafka.plan import EncodePlan
from twophase.kafka.records import encode
from twophase.kafka.sender import Sender
from twophase.kafka.transactions import Transactions
from twophase.kafka.wire import Wire

MUST, AIM = 2.0, 3.0
SAME_PLACE = {"enable.idempotence": True, "partitioner": "murmur2_random"}
PEERS = {
    "produce()+flush()": SAME_PLACE,
    "the same, tuned": SAME_PLACE | {"linger.ms": 20, "batch.size": 1_000_000},
}
SHAPES = (Shape(), Shape(10), Shape(1000), Shape(headers=True), Shape(codec=Codec.ZSTD))


def send_run(wire: Wire, identity: Identity, shape: Shape, rows: Rows, topic: str) -> float:
    """Encode, send and have acknowledged all rows once; return rows per second."""
    plan = EncodePlan({topic: shape.partitions}, topic=topic, codec=shape.codec)
    start = time.perf_counter()
    sender = Sender(wire, identity)
    for block in encode(rows.batch, plan, now_ms=int(time.time() * 1000)):
        sender.send(block)
    sent = sum(done.records for done in sender.flush())
    seconds = time.perf_counter() - start
    if sent != rows.count:
        raise SystemExit(f"{sent} of {rows.count} rows were acknowledged")
    return rows.count / seconds


def measure(servers: str, count: int, runs: int) -> Iterator[Figure]:
    """Measure every shape, all sides turn by turn."""
    admin = AdminClient({"bootstrap.servers": servers})
    with Wire(KafkaOptions.parse({"kafka.bootstrap.servers": servers})) as wire:
        transactions = Transactions(wire)
        for shape in SHAPES:
            topic = f"bench-{uuid4().hex[:8]}"
            admin.create_topics([NewTopic(topic, shape.partitions)])[topic].result(30)
            # Twice as many as for encoding alone: a run has to outlast its own beginning.
            rows = Rows(shape, 2 * count)
            identity: Identity | None = None
            ours: list[float] = []
            theirs: dict[str, list[float]] = {peer: [] for peer in PEERS}
            for _ in range(runs + 1):
                identity = identity or transactions.own("bench")
                ours.append(send_run(wire, identity, shape, rows, topic))
                identity = transactions.commit(identity)
                for peer, settings in PEERS.items():
                    _, seconds = produce(servers, topic, shape, rows, settings)
                    theirs[peer].append(rows.count / seconds)
            admin.delete_topics([topic])[topic].result(30)
            bar = {"must": MUST, "aim": AIM} if shape == Shape() else {}
            for peer, values in theirs.items():
                # The first run of each side warms up connections and the broker's code.
                best = tuple(ours[1:]), peer, tuple(values[1:])
                yield Figure(f"send {shape}", UNIT, *best, **bar)
