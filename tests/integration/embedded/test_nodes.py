"""Nodes that are killed, paused, stopped and started again."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from support.waiting import wait_until

from twophase.embedded import EmbeddedKafka, cluster, jarset
from twophase.embedded.ports import free_ports
from twophase.embedded.process import ProcessIdentity
from twophase.embedded.settings import NodePorts
from twophase.errors import SetupError

PARENT = """
import json, time
from twophase.embedded import EmbeddedKafka
kafka = EmbeddedKafka()
kafka.start()
(node,) = kafka.nodes
print(json.dumps([node.pid, node.guardian_pid, str(kafka.directory)]), flush=True)
time.sleep(300)
"""


@pytest.fixture(scope="module")
def three():
    """Three nodes, shared by the tests here, each of which leaves all of them running."""
    with EmbeddedKafka(nodes=3) as running:
        yield running


@pytest.mark.parametrize("victim", ["parent", "guardian"])
def test_no_orphan(victim):
    """A kill -9 of the parent, or of the guardian, leaves no JVM."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        pid, guardian_pid, directory = json.loads(parent.stdout.readline())
        jvm, guardian = ProcessIdentity.of(pid), ProcessIdentity.of(guardian_pid)
        assert "kafka.Kafka" in Path(f"/proc/{pid}/cmdline").read_text()
        os.kill(parent.pid if victim == "parent" else guardian_pid, signal.SIGKILL)
        assert jvm.wait(15)
        parent.kill()
    assert guardian.wait(15)
    if victim == "parent":
        assert not Path(directory).exists()
    # With both of them killed nobody is left to do it.
    shutil.rmtree(directory, ignore_errors=True)


def test_restart_keeps_data_and_ports(private_kafka, make_topic):
    """A node that was killed, and one that was restarted, comes back as it was."""
    kafka = private_kafka()
    (node,) = kafka.nodes
    topic = make_topic(kafka)
    write(kafka, topic)
    address = node.address
    node.kill()
    assert not node.running
    assert node.pid is None
    node.start()
    assert node.address == address
    write(kafka, topic)
    with pytest.raises(SetupError, match="runs already"):
        node.launch()
    node.restart()
    assert (
        topic
        in AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        .list_topics(timeout=30)
        .topics
    )


def test_directory_is_kept(tmp_path):
    """A cluster in a folder of the user's finds its data there the next time."""
    with EmbeddedKafka(directory=tmp_path / "kafka") as first:
        identity = meta(first)
    with EmbeddedKafka(directory=tmp_path / "kafka") as second:
        assert meta(second) == identity
        assert not second.nodes[0].paused


def test_three_nodes_survive_one(three, make_topic):
    """With one of three nodes killed a topic stays writable; restarted it is in sync again."""
    topic = make_topic(three)
    victim = three.nodes[1]
    wait_until(lambda: in_sync(three, topic) == {1, 2, 3})
    assert minimum_in_sync(three, topic) == "2"
    victim.kill()
    write(three, topic)
    wait_until(lambda: in_sync(three, topic) == {1, 3})
    victim.start()
    wait_until(lambda: in_sync(three, topic) == {1, 2, 3})


def test_pause_and_resume(three, make_topic):
    """A paused node falls out of sync while its process lives; resumed it comes back."""
    topic = make_topic(three)
    victim = three.nodes[2]
    pid = victim.pid
    victim.pause()
    assert victim.paused
    wait_until(lambda: in_sync(three, topic) == {1, 2})
    write(three, topic)
    victim.resume()
    assert victim.pid == pid
    wait_until(lambda: in_sync(three, topic) == {1, 2, 3})


def test_taken_port_is_named():
    """A port that the user chose and another holds is one sentence with the port."""
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        with pytest.raises(SetupError, match=f"port {port} is taken by another process; stop"):
            EmbeddedKafka(port=port).start()


def test_port_lost_in_between_is_tried_again(monkeypatch):
    """A free port that another process takes before the broker does costs another try."""
    with socket.create_server(("127.0.0.1", 0)) as thief:
        stolen = thief.getsockname()[1]
        tries = iter([[stolen, *free_ports(3)], free_ports(4)])
        monkeypatch.setattr(cluster, "free_ports", lambda _: next(tries))
        with EmbeddedKafka() as kafka:
            assert kafka.nodes[0].ports.plain != stolen
            assert isinstance(kafka.nodes[0].ports, NodePorts)


def test_broker_that_refuses_its_settings():
    """A broker that cannot start is one sentence that quotes its log and names the file."""
    kafka = EmbeddedKafka(properties={"num.io.threads": "none"})
    with pytest.raises(SetupError) as caught:
        kafka.start()
    said = str(caught.value)
    assert "num.io.threads" in said
    assert "\n" not in said
    assert Path(said.rpartition("log is ")[2]).is_file()
    assert not any(node.running for node in kafka.nodes)
    kafka.stop()
    assert not kafka.directory.exists()


def test_class_path_is_the_committed_list(kafka):
    """A jar that happens to lie in the cache folder is not loaded."""
    command = Path(f"/proc/{kafka.nodes[0].pid}/cmdline").read_text().split("\0")
    class_path = command[command.index("-cp") + 1].split(os.pathsep)
    names = [jar.file_name for jar in jarset.load("kafka-4.3.1").jars]
    assert [Path(entry).name for entry in class_path] == names


def write(kafka, topic):
    """Write one record that all replicas in sync have acknowledged."""
    failures = []
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "acks": "all"})
    producer.produce(topic, b"x", on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(60) == 0
    assert failures == [None]


def in_sync(kafka, topic):
    """Return the ids of the brokers in sync, asked of the brokers themselves."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    return set(admin.list_topics(topic, timeout=30).topics[topic].partitions[0].isrs)


def minimum_in_sync(kafka, topic):
    """Return the topic's effective min.insync.replicas."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    resource = ConfigResource(ResourceType.TOPIC, topic)
    return admin.describe_configs([resource])[resource].result(30)["min.insync.replicas"].value


def meta(kafka):
    """Return the identity of a cluster's first data folder."""
    text = (kafka.nodes[0].directory / "data" / "meta.properties").read_text()
    return {line for line in text.splitlines() if not line.startswith("#")}
