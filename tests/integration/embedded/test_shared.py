"""The shared brokers, asked for what they promise."""

import itertools
import socket
import threading
from contextlib import contextmanager, suppress

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient


@pytest.mark.parametrize(("fixture", "expected"), [("kafka", 2), ("kafka39", 0)])
def test_transaction_version(fixture, expected, request):
    """4.3.1 finalises transaction.version 2; 3.9.2 finalises none, which means less than 2."""
    cluster = request.getfixturevalue(fixture)
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    try:
        features = admin.describe_features()
    finally:
        admin.close()
    assert features["metadata.version"]["finalized"]
    assert features.get("transaction.version", {}).get("finalized", (0, 0))[1] == expected


@pytest.mark.parametrize("fixture", ["kafka", "kafka39"])
def test_write_and_read(fixture, request, make_topic):
    """What is produced can be consumed, and the log is where it was said to be."""
    cluster = request.getfixturevalue(fixture)
    topic = make_topic(cluster, partitions=2, retention_ms=60000)
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
    try:
        producer.send(topic, b"one", partition=1).get(timeout=30)
    finally:
        producer.close()
    consumer = KafkaConsumer(
        topic, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
    )
    try:
        records = next(r for _ in range(30) if (r := consumer.poll(timeout_ms=1000)))
    finally:
        consumer.close()
    assert [r.value for rs in records.values() for r in rs] == [b"one"]
    assert topic in cluster.nodes[0].log_file.read_text()


def test_start_again_does_nothing(kafka):
    """A start while it runs is a no-op that says so."""
    (node,) = kafka.nodes
    pid = node.pid
    assert kafka.start() is False
    assert node.pid == pid
    assert "running" in repr(node)


def test_proxied_listener_sends_clients_to_the_proxy(kafka):
    """A client of the proxied listener is told the proxy's port for everything else."""
    (node,) = kafka.nodes
    address = f"127.0.0.1:{node.proxy_advertised_port}"
    with proxy(node) as connections:
        admin = KafkaAdminClient(bootstrap_servers=address)
        try:
            (broker,) = admin.describe_cluster()["brokers"]
        finally:
            admin.close()
    assert f"{broker['host']}:{broker['port']}" == address
    # One connection for the bootstrap, one for the broker that the metadata named.
    assert len(connections) == 2


@contextmanager
def proxy(node):
    """Forward connections from the advertised port to the node; yield the list of them."""
    connections, threads = [], []
    far = node.proxied_address.rpartition(":")

    def forward(source, target):
        while data := source.recv(65536):
            target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def serve(listener):
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                pair = near, socket.create_connection((far[0], int(far[2])))
                connections.append(pair)
                begin(forward, *pair)
                begin(forward, *reversed(pair))

    def begin(function, *arguments):
        threads.append(threading.Thread(target=function, args=arguments))
        threads[-1].start()

    with socket.create_server(("127.0.0.1", node.proxy_advertised_port)) as listener:
        begin(serve, listener)
        yield connections
        listener.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(10)
        for connection in itertools.chain(*connections):
            connection.close()
