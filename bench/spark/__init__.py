"""Rows per second, time and memory of the sink in Spark, beside Spark's own Kafka sink.

Both sinks write the same rows from one session with two cores, turn by turn, to topics of the same
shape. Broker, driver and Python workers share the machine's cores.
"""

from collections.abc import Iterator

from bench.report import Figure
from bench.spark import batch, latency, processors, stream
from bench.spark.setting import Topics, session

# A run has to outlast its own beginning: so many times the rows of the other groups.
TIMES = 10
RUNS_MAX = 5


def measure(servers: str, count: int, runs: int) -> Iterator[Figure]:
    """Measure batch writes, streams and latency in one session."""
    topics, runs = Topics(servers), min(runs, RUNS_MAX)
    with session() as spark:
        yield from batch.measure(spark, topics, TIMES * count, runs)
        yield from processors.measure(spark, topics, TIMES * count, runs)
        yield from stream.measure(spark, topics, TIMES * count, runs)
        yield from latency.measure(spark, topics, runs)
