"""Risks of a connection that a file allows: told where it is used, though the check is silent."""

import logging

import pytest
from unit.pipeline.files import changed, load

from twophase.kafka import options as kafka_options
from twophase.kafka.options import KafkaOptions
from twophase.pipeline.verifying import verifiable

PLAIN = """\
  kafka.bootstrap.servers: broker:9092
  kafka.security.protocol: SASL_PLAINTEXT
  kafka.sasl.mechanism: PLAIN
  kafka.sasl.jaas.config: org.apache.kafka.common.security.plain.PlainLoginModule required
    username="etl" password="${env:ETL_PASSWORD}";
"""
ANY_HOST = """\
  kafka.bootstrap.servers: broker:9092
  kafka.security.protocol: SSL
  kafka.ssl.endpoint.identification.algorithm: ""
"""


@pytest.mark.parametrize(
    ("connection", "said"),
    [(PLAIN, "everybody on the way reads the password"), (ANY_HOST, "names are not checked")],
)
def test_what_the_check_keeps_to_itself_is_told_later(
    tmp_path, monkeypatch, caplog, connection, said
):
    """Once, by whoever connects first: the source, a sink, or a verification."""
    monkeypatch.setenv("ETL_PASSWORD", "hunter22")
    kafka_options._warn_once.cache_clear()
    with caplog.at_level(logging.WARNING, "twophase.options"):
        pipeline = load(tmp_path, changed("  kafka.bootstrap.servers: broker:9092\n", connection))
        assert caplog.text == ""
        for _ in range(2):
            KafkaOptions.parse(verifiable(pipeline).sink_options)
        pipeline.sinks[0].make(())
    assert caplog.text.count(said) == 1
