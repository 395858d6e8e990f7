"""What nodes are told."""

from pathlib import Path

import pytest

from twophase.embedded import EmbeddedKafka, settings
from twophase.embedded.settings import NodePorts
from twophase.errors import ConfigurationError

PORTS = tuple(NodePorts(*range(first, first + 4)) for first in (100, 200, 300))


def properties(node_id, ports, data="/data", extra=None):
    """Return the server.properties as a dictionary."""
    text = settings.server_properties(node_id, ports, Path(data), extra or {})
    return dict(line.split("=", 1) for line in text.splitlines())


def test_one_node():
    """A single node keeps one replica of everything and creates no topic unasked."""
    found = properties(1, PORTS[:1])
    assert found["min.insync.replicas"] == found["transaction.state.log.min.isr"] == "1"
    assert found["offsets.topic.replication.factor"] == "1"
    assert found["auto.create.topics.enable"] == "false"
    assert found["controller.quorum.voters"] == "1@127.0.0.1:101"


def test_three_nodes():
    """Three nodes keep three replicas, of which two must be in sync."""
    found = properties(2, PORTS)
    assert found["default.replication.factor"] == "3"
    assert found["min.insync.replicas"] == found["transaction.state.log.min.isr"] == "2"
    assert found["node.id"] == "2"
    assert found["controller.quorum.voters"] == "1@127.0.0.1:101,2@127.0.0.1:201,3@127.0.0.1:301"


def test_proxied_listener_advertises_the_proxy():
    """A client of the proxied listener is sent to the proxy's port, all others are not."""
    found = properties(1, PORTS)
    assert "PROXIED://127.0.0.1:102" in found["listeners"]
    assert found["advertised.listeners"] == "PLAINTEXT://127.0.0.1:100,PROXIED://127.0.0.1:103"


def test_callers_properties_win():
    """A caller may add a property and replace one of ours."""
    extra = {"transactional.id.expiration.ms": 5000, "offsets.topic.num.partitions": 1}
    found = properties(1, PORTS, extra=extra)
    assert found["transactional.id.expiration.ms"] == "5000"
    assert found["offsets.topic.num.partitions"] == "1"


def test_paths_survive_javas_properties_format():
    """Backslashes and letters beyond ASCII reach Java as they are."""
    assert (
        properties(1, PORTS, "/a\\b/ü/\U0001f600")["log.dirs"] == "/a\\\\b/\\u00fc/\\ud83d\\ude00"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"nodes": 2}, "nodes is 2; allowed are 1 and 3"),
        ({"version": "2.8.0"}, "version is '2.8.0'; allowed are 4.3.1, 3.9.2"),
        ({"properties": {"listeners": "x"}}, "listeners is set by the embedded cluster itself"),
    ],
)
def test_refused_before_anything_is_touched(arguments, message):
    """What cannot be started is refused with the key, the value and what is allowed."""
    with pytest.raises(ConfigurationError, match=message):
        EmbeddedKafka(**arguments)
