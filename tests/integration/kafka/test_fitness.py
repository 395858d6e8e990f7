"""Brokers that could break the promise are refused before anything is written."""

import time

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from twophase.errors import ConfigurationError
from twophase.kafka import fitness
from twophase.kafka.options import KafkaOptions
from twophase.kafka.wire import Wire


def test_brokers_as_they_come_are_fit(broker):
    """Both versions pass, and tell the longest transaction timeout: 15 minutes by default."""
    with Wire(KafkaOptions.parse({"kafka.bootstrap.servers": broker.bootstrap_servers})) as wire:
        assert fitness.check_fit(wire) == 900_000


def test_verification_off_is_refused_by_name(private_kafka):
    """Kafka 3.9 with partition verification off: the setting and what to do are named."""
    cluster = private_kafka(version="3.9.2")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    entry = ConfigEntry(fitness.VERIFICATION, "false", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(30)
    with Wire(KafkaOptions.parse({"kafka.bootstrap.servers": cluster.bootstrap_servers})) as wire:
        deadline = time.monotonic() + 20
        while fitness.broker_settings(wire, 1)[fitness.VERIFICATION] != "false":
            assert time.monotonic() < deadline
            time.sleep(0.1)
        with pytest.raises(ConfigurationError, match=r"node 1 has transaction.partition.*=false"):
            fitness.check_fit(wire)


def test_a_broker_that_does_not_know_the_setting_is_too_old(broker, monkeypatch):
    """Kafka before 3.6 has no such setting; here one is asked for that no broker has."""
    monkeypatch.setattr(fitness, "VERIFICATION", "transaction.no.such.setting")
    with Wire(KafkaOptions.parse({"kafka.bootstrap.servers": broker.bootstrap_servers})) as wire:
        if wire.transaction_version() == 2:
            assert fitness.check_fit(wire) == 900_000
            return
        with pytest.raises(ConfigurationError, match=r"is older than Kafka 3.6"):
            fitness.check_fit(wire)
