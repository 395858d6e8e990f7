"""A real Apache Kafka for development and tests, fetched and run on this machine.

    with EmbeddedKafka() as kafka:
        producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)

The jars come by the Ivy inside pyspark into a cache folder (`twophase.embedded.cache.home`), each
checked against a committed SHA-256 sum, so pip and Java 17 are all a machine needs. Brokers started
here listen on loopback only and do not outlive the process that started them; the command line's
`twophase kafka start` is the one that leaves a cluster running (`twophase.embedded.detached`).
"""

from twophase.embedded.cluster import EmbeddedKafka
from twophase.embedded.fetch import fetch_jars
from twophase.embedded.node import Node
from twophase.embedded.settings import DEFAULT_VERSION, VERSIONS

__all__ = ["DEFAULT_VERSION", "VERSIONS", "EmbeddedKafka", "Node", "fetch_jars"]
