"""A cluster with users: its super user, and the rights that the others are given and lose."""

import re
from dataclasses import dataclass
from uuid import uuid4

from confluent_kafka import Consumer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from support.readers import _drain
from support.waiting import wait_until
from twophase.kafka.admin import TransactionState, list_transactions
from twophase.kafka.options import KafkaOptions
from twophase.kafka.wire import Wire

_KINDS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional id": ResourceType.TRANSACTIONAL_ID,
    "cluster": ResourceType.BROKER,
}


@dataclass(frozen=True)
class Right:
    """One right as `docs/security.md` lists it; a name that ends with * is a prefix."""

    operation: str
    kind: str
    name: str

    def __str__(self):
        return f"{self.operation} on {self.kind} '{self.name}'"

    def binding(self, user, form=AclBinding):
        prefix = self.name.endswith("*")
        pattern = ResourcePatternType.PREFIXED if prefix else ResourcePatternType.LITERAL
        return form(
            *(_KINDS[self.kind], self.name.removesuffix("*"), pattern, f"User:{user}", "*"),
            *(AclOperation[self.operation], AclPermissionType.ALLOW),
        )


class SuperUser:
    """Whoever may do all, over SASL_SSL, by librdkafka."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.settings = librdkafka(cluster.client_options("admin"))
        self.admin = AdminClient(self.settings)
        given = {f"kafka.{k}": v for k, v in cluster.client_options("admin").items()}
        self.options = KafkaOptions.parse(given)

    def make_topic(self, partitions=1, prefix="topic"):
        name = f"{prefix}-{uuid4().hex[:10]}"
        self.admin.create_topics([NewTopic(name, partitions)])[name].result(timeout=30)
        wait_until(lambda: name in self.admin.list_topics(name, timeout=10).topics)
        return name

    def grant(self, user, *rights):
        bindings = [right.binding(user) for right in rights]
        for done in self.admin.create_acls(bindings).values():
            done.result(timeout=30)
        for right in rights:
            wait_until(lambda right=right: self._listed(user, right))

    def revoke(self, user, *rights):
        filters = [right.binding(user, AclBindingFilter) for right in rights]
        for done in self.admin.delete_acls(filters).values():
            assert done.result(timeout=30)
        for right in rights:
            wait_until(lambda right=right: not self._listed(user, right))

    def _listed(self, user, right):
        # Answered by the broker's own authorizer, which learns of a change a moment after.
        found = self.admin.describe_acls(right.binding(user, AclBindingFilter))
        return bool(found.result(timeout=30))

    def values(self, topic):
        """Return what a reader in read_committed sees, once nothing is being ended."""
        ending = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
        with Wire(self.options) as wire:
            wait_until(lambda: not list_transactions(wire, states=ending))
        return [row.value for row in self._rows(topic)]

    def _rows(self, topic):
        more = {
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 20,
        }
        consumer = Consumer(self.settings | more)
        count = len(self.admin.list_topics(topic, timeout=10).topics[topic].partitions)
        try:
            return _drain(consumer, topic, count, 30.0)
        finally:
            consumer.close()


def librdkafka(options):
    """Return Java's names and values as librdkafka has them."""
    found = {
        "bootstrap.servers": options["bootstrap.servers"],
        "security.protocol": options["security.protocol"],
    }
    if "ssl.truststore.location" in options:
        found["ssl.ca.location"] = options["ssl.truststore.location"]
    if jaas := options.get("sasl.jaas.config"):
        user, password = re.findall(r'="((?:[^"\\]|\\.)*)"', jaas)
        found["sasl.mechanism"] = options["sasl.mechanism"]
        found["sasl.username"] = user
        found["sasl.password"] = re.sub(r"\\(.)", r"\1", password)
    return found


def prefixed(options, **more):
    """Return options as a sink takes them; underscores of `more` stand for dots."""
    given = options | {key.replace("_", "."): str(value) for key, value in more.items()}
    return {f"kafka.{key}": value for key, value in given.items()}
