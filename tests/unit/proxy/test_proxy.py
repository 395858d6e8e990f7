"""What the proxy does to frames, shown between a broker and a client that know nothing else."""

import socket
import struct
import threading
import time

import pytest
from support.waiting import wait_until
from unit.proxy.echo import request

from twophase.errors import ConfigurationError, ProtocolViolation, SetupError
from twophase.verify.proxy import ApiKey, KafkaProxy

END, FETCH, PRODUCE = ApiKey.END_TXN, ApiKey.FETCH, ApiKey.PRODUCE


def answer(correlation_id: int, body: bytes = b"") -> bytes:
    """Return the answer that the echo gives."""
    return struct.pack(">i", correlation_id) + body


def test_without_rules_everything_passes_and_is_counted(proxy, connect):
    """Requests and answers pass unchanged, in order, and are counted by kind and direction."""
    client = connect()
    for number in range(5):
        client.send(request(FETCH, number, bytes([number])))
    assert [client.read() for _ in range(5)] == [answer(n, bytes([n])) for n in range(5)]

    assert client.ask(1234, 9, b"unnamed") == answer(9, b"unnamed")
    assert proxy.passed(FETCH) == proxy.passed(FETCH, "response") == 5
    assert proxy.passed(1234) == 1
    assert proxy.passed(END) == 0


def test_dropped_answer_silences_the_rest_of_its_stream(proxy, connect, broker):
    """The broker did the work, the client never hears of it; a new connection is unharmed."""
    dropped = proxy.on(END, "response").drop()
    client = connect()
    client.send(request(END, 1, b"commit"))
    client.send(request(FETCH, 2))

    assert dropped.wait_caught().payload == answer(1, b"commit")
    assert client.silent()
    wait_until(lambda: len(broker.received) == 2)
    assert connect().ask(END, 1, b"again") == answer(1, b"again")
    assert dropped.count == 1


def test_dropped_request_never_reaches_the_broker(proxy, connect, broker):
    """Neither the request nor what comes behind it on the same connection."""
    dropped = proxy.on(END).drop()
    client = connect()
    assert client.ask(FETCH, 0) == answer(0)
    client.send(request(END, 1))
    client.send(request(FETCH, 2))

    dropped.wait_caught()
    assert client.silent()
    assert len(broker.received) == 1


def test_delay_holds_up_what_comes_behind(proxy, connect):
    """A delayed answer is late by so much, and later answers do not overtake it."""
    proxy.on(END, "response").delay(0.2)
    client = connect()
    started = time.monotonic()
    client.send(request(END, 1))
    client.send(request(FETCH, 2))

    assert [client.read(), client.read()] == [answer(1), answer(2)]
    assert time.monotonic() - started >= 0.2


def test_held_answer_comes_on_release(proxy, connect):
    """The test decides when the client hears; until then the client hears nothing."""
    held = proxy.on(END, "response").hold()
    client = connect()
    client.send(request(END, 1))

    held.wait_caught()
    assert client.silent()
    held.release()
    assert client.read() == answer(1)


def test_held_request_reaches_the_broker_although_its_client_is_gone(proxy, connect, broker):
    """A packet of a dead client arrives late."""
    held = proxy.on(END).hold()
    client = connect()
    client.send(request(END, 1, b"late"))
    held.wait_caught()
    client.sock.close()
    assert broker.received == []

    held.release()
    wait_until(lambda: len(broker.received) == 1)
    assert broker.received[0].endswith(b"late")
    wait_until(lambda: proxy.connection_count == 0)


def test_duplicated_request_gives_the_client_one_answer(proxy, connect, broker):
    """The broker gets it twice; the second answer is for the test alone."""
    doubled = proxy.on(END).duplicate()
    client = connect()

    assert client.ask(END, 1, b"commit") == answer(1, b"commit")
    assert client.ask(FETCH, 2) == answer(2)
    assert [payload[:2] for payload in broker.received] == [b"\0\x1a", b"\0\x1a", b"\0\1"]
    assert doubled.wait_answer().payload == answer(1, b"commit")
    assert proxy.passed(END) == 2
    assert proxy.passed(END, "response") == 1


def test_duplicated_answer_comes_twice(proxy, connect):
    """A client can be shown an answer that it has had already."""
    proxy.on(END, "response").duplicate()
    client = connect()
    client.send(request(END, 1))

    assert [client.read(), client.read()] == [answer(1), answer(1)]


@pytest.mark.parametrize("direction", ["request", "response"])
def test_cut_closes_both_sides(proxy, connect, broker, direction):
    """The client sees the connection end; the broker has the request only if its answer was cut."""
    cut = proxy.on(END, direction).cut()
    client = connect()

    assert client.ask(END, 1) is None
    assert cut.count == 1
    assert len(broker.received) == (0 if direction == "request" else 1)
    wait_until(lambda: proxy.connection_count == 0)


@pytest.mark.parametrize("act", ["capture", "drop"])
def test_caught_request_can_be_delivered_late(proxy, connect, broker, act):
    """The copy goes over a connection of its own, whether or not the original went through."""
    caught = getattr(proxy.on(PRODUCE), act)()
    client = connect()
    body = struct.pack(">hi", -1, 1000) + b"rows"
    client.send(request(PRODUCE, 3, body))
    caught.wait_caught()
    client.sock.close()

    for _ in range(2):
        assert caught.deliver() == answer(3, body)
    wait_until(lambda: len(broker.received) == (3 if act == "capture" else 2))
    assert len(set(broker.received)) == 1


def test_delivering_an_unanswered_produce_returns_nothing(proxy, connect, broker):
    """acks=0: the broker has read it when deliver returns, and says nothing."""
    caught = proxy.on(PRODUCE).capture()
    connect().send(request(PRODUCE, 3, struct.pack(">hi", 0, 1000)))
    caught.wait_caught()

    assert caught.deliver() == b""
    wait_until(lambda: len(broker.received) == 2)


def test_an_answer_cannot_be_delivered(proxy, connect):
    """Only a request has a broker to go to."""
    caught = proxy.on(END, "response").capture()
    connect().ask(END, 1)

    with pytest.raises(ConfigurationError, match="only a request"):
        caught.deliver()


def test_unanswered_produce_does_not_shift_the_answers(proxy, connect):
    """acks=0 has no answer, so the next answer belongs to the next request."""
    caught = proxy.on(FETCH, "response").capture()
    client = connect()
    client.send(request(PRODUCE, 1, struct.pack(">hi", 0, 1000)))

    assert client.ask(FETCH, 2, b"x") == answer(2, b"x")
    assert caught.wait_caught().correlation_id == 2


def test_rule_is_for_as_many_frames_as_asked(proxy, connect):
    """`times` frames are caught, then none; `remove` ends a rule that has no end."""
    twice = proxy.on(END).capture(times=2)
    every = proxy.on(FETCH).capture(times=None)
    client = connect()
    for number in range(4):
        client.ask(END, number)
        client.ask(FETCH, number)

    assert [frame.correlation_id for frame in twice.frames] == [0, 1]
    assert every.count == 4
    every.remove()
    client.ask(FETCH, 4)
    assert every.count == 4


def test_predicate_narrows_a_rule(proxy, connect):
    """By client id, by version, by the raw bytes: whatever the frame shows."""
    by_client = proxy.on(END, where=lambda frame: frame.client_id == "zombie").capture()
    by_bytes = proxy.on(END, "response", where=lambda frame: b"abort" in frame.payload).capture()
    client = connect()
    client.ask(END, 1, b"commit")
    client.ask(END, 2, b"abort", client_id="zombie")

    assert by_client.wait_caught().correlation_id == 2
    assert by_bytes.wait_caught().correlation_id == 2
    assert (by_client.count, by_bytes.count) == (1, 1)


def test_partition_loses_all_and_heals_for_new_connections(proxy, connect, broker):
    """Connections stay open and silent; those that lost nothing go on after the heal."""
    client, idle = connect(), connect()
    client.ask(FETCH, 0)
    idle.ask(FETCH, 0)
    proxy.partition()
    client.send(request(FETCH, 1))
    newcomer = connect()
    newcomer.send(request(FETCH, 1))
    wait_until(lambda: cut_off(proxy) == 2)
    assert client.silent()
    assert newcomer.silent()

    proxy.heal()
    client.send(request(FETCH, 2))
    assert client.silent()
    assert idle.ask(FETCH, 1) == connect().ask(FETCH, 1) == answer(1)
    assert len(broker.received) == 4


def test_cut_all_ends_every_connection(proxy, connect):
    """Clients see the end at once, also those that wait for a held answer; new ones are welcome."""
    held = proxy.on(END, "response").hold()
    client, waiting = connect(), connect()
    client.ask(FETCH, 1)
    waiting.send(request(END, 1))
    held.wait_caught()

    proxy.cut_all()
    assert client.read() is waiting.read() is None
    assert connect().ask(FETCH, 2) == answer(2)


def test_clear_forgets_rules_and_lets_go(proxy, connect):
    """After clear nothing is caught and nothing is held."""
    held = proxy.on(END, "response").hold(times=None)
    client = connect()
    client.send(request(END, 1))
    held.wait_caught()

    proxy.clear()
    assert client.read() == answer(1)
    assert client.ask(END, 2) == answer(2)


def test_wait_for_what_never_comes_ends(proxy):
    """A wait is bounded and says what was awaited."""
    caught = proxy.on(END, "response").hold()

    with pytest.raises(TimeoutError, match="hold of END_TXN response caught 0 of 1"):
        caught.wait_caught(0.05)
    with pytest.raises(TimeoutError, match="no second answer"):
        caught.wait_answer(0.05)


def test_stop_ends_threads_that_hold_and_delay(broker, port):
    """Stopping does not wait for a rule, and leaves no thread behind."""
    before = threading.active_count()
    with (
        KafkaProxy({port: broker.address}) as proxy,
        connected(port) as first,
        connected(port) as second,
    ):
        held = proxy.on(END).hold()
        late = proxy.on(FETCH).delay(60)
        first.sendall(framed(request(END, 1)))
        second.sendall(framed(request(FETCH, 1)))
        held.wait_caught()
        late.wait_caught()
        started = time.monotonic()
        proxy.stop()
        assert time.monotonic() - started < 30
    wait_until(lambda: threading.active_count() <= before)


def test_a_broker_that_is_down_looks_like_it(port):
    """The client is accepted and closed at once."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        with KafkaProxy({port: nobody.getsockname()}), connected(port) as sock:
            assert sock.recv(1) == b""


def test_a_taken_port_is_named(broker, port):
    """The proxy listens on all of its ports or on none."""
    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(SetupError, match=str(port)),
    ):
        KafkaProxy({port: broker.address}).start()


@pytest.mark.parametrize("data", [b"\x16\x03\x01\x02", b"\xff\xff\xff\xff", b"\0\0\0\2xx"])
def test_what_is_not_kafka_is_told_at_the_end(broker, port, data):
    """TLS or rubbish ends its connection, and stop says so: a test must not pass over it."""
    proxy = KafkaProxy({port: broker.address})
    proxy.start()
    with connected(port) as sock:
        sock.sendall(data)
        assert sock.recv(1) == b""
    with pytest.raises(ProtocolViolation):
        proxy.stop()


def test_large_frames_pass_at_speed(connect):
    """More than 50 MB/s of 4 MB requests with answers as large, in the best of some rounds."""
    client = connect()
    body = bytes(4 * 2**20)

    def megabytes_per_second() -> float:
        started = time.monotonic()
        for number in range(8):
            assert client.ask(FETCH, number, body) == answer(number, body)
        return 32 / (time.monotonic() - started)

    wait_until(lambda: megabytes_per_second() > 50)


def cut_off(proxy: KafkaProxy) -> int:
    """Return how many connections have lost a request."""
    with proxy._lock:
        return sum("request" in each._silent for each in proxy._connections.values())


def framed(payload: bytes) -> bytes:
    """Return the payload with its size before it."""
    return struct.pack(">i", len(payload)) + payload


def connected(port: int) -> socket.socket:
    """Return a socket to the proxy."""
    return socket.create_connection(("127.0.0.1", port), 60)
