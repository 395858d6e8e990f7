"""`python -m bench.spark.load servers source target`: rows into one topic, and out of another.

A steady stream of small rows, each with the moment in which it was handed over, and a reader of
what is committed, which notes how old each row is when it has it. Prints all ages as JSON. This is
a process of its own: in the driver's it would take turns with the sink, as no user's programs do.
"""

import json
import sys
import threading
import time

from confluent_kafka import Consumer, Producer

ROWS_PER_S = 1_000
WARM_UP_S, MEASURED_S, DRAIN_S = 10.0, 20.0, 20.0
_STEP_S = 0.01


def main(servers: str, source: str, target: str) -> None:
    """Write and read side by side, until all rows are there or the time is over."""
    reader = _Reader(servers, target)
    reader.start()
    reader.expected = sent = _produce(servers, source)
    reader.join(DRAIN_S)
    if len(reader.took_s) != sent:
        sys.exit(f"{len(reader.took_s)} of {sent} rows have arrived")
    json.dump(reader.took_s[int(WARM_UP_S * ROWS_PER_S) :], sys.stdout)


def _produce(servers: str, topic: str) -> int:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    step = int(ROWS_PER_S * _STEP_S)
    steps = int((WARM_UP_S + MEASURED_S) / _STEP_S)
    began_s = time.monotonic()
    for at in range(steps):
        time.sleep(max(0.0, began_s + at * _STEP_S - time.monotonic()))
        for number in range(step):
            value = f"{time.monotonic()!r}".encode()
            producer.produce(topic, value, f"key-{number % 997}".encode())
        producer.poll(0)
    producer.flush(30)
    return step * steps


class _Reader(threading.Thread):
    """Reads until all expected rows are there, or its time is over."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.expected: int | None = None
        self.took_s: list[float] = []
        settings = {
            "bootstrap.servers": servers,
            "group.id": f"{topic}-reader",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,
        }
        self._consumer = Consumer(settings)
        self._consumer.subscribe([topic])

    def run(self) -> None:
        """Note how old each row is when it is read."""
        until_s = time.monotonic() + WARM_UP_S + MEASURED_S + DRAIN_S
        while len(self.took_s) != self.expected and time.monotonic() < until_s:
            for message in self._consumer.consume(1_000, timeout=0.01):
                if message.error() is None:
                    self.took_s.append(time.monotonic() - float(message.value()))
        self._consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
