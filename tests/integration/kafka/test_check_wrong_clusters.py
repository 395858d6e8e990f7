"""`twophase check` against real clusters that are set up wrongly: what is known is always told."""

import json
from pathlib import Path

import pytest
from support.rows import blocks, named
from support.waiting import wait_until
from support.writing import write

from twophase.cli.main import run as command_line
from twophase.embedded import jarset, settings
from twophase.errors import ConfigurationError
from twophase.kafka.fitness import check_fit
from twophase.kafka.transactions import Transactions
from twophase.verify.proxy import KafkaProxy

OLD = "3.5.2"
REPLICATION = "transaction.state.log.replication.factor"
INTERNAL = ("__transaction_state", "__consumer_offsets")


@pytest.fixture
def check(capsys, tmp_path):
    """Run `twophase check`; return its exit code and its findings as (level, point, said)."""

    def run(servers, topic, *more):
        config = tmp_path / "client.properties"
        config.write_text("request.timeout.ms=2000\nmax.block.ms=4000\n")
        where = ["--bootstrap-server", servers, "--command-config", str(config)]
        what = ["check", "--sink-id", "orders", "--topic", topic, *more]
        code = command_line([*what, *where, "--output", "json"])
        found = json.loads(capsys.readouterr().out)["findings"]
        return code, [(each["level"], each["point"], each["said"]) for each in found]

    return run


def of(found, point):
    return [(level, said) for level, each, said in found if each == point]


def test_the_only_broker_advertises_an_address_that_nobody_answers(kafka, make_topic, check):
    """The error is told with the node, and that nothing else can be known; the machine is told."""
    code, found = check(kafka.nodes[0].proxied_address, make_topic(kafka))
    assert code == 2
    ((level, said),) = of(found, "brokers")
    assert (level, "node 1 does not answer" in said) == ("error", True)
    ((level, said),) = of(found, "all other points")
    assert (level, said) == (
        "not known",
        "no broker answers at the address that it advertises",
    )
    assert {point for _, point, _ in found} == {
        *("brokers", "all other points", "java", "spark", "connector")
    }


@pytest.mark.long
def test_one_of_three_advertises_an_address_that_nobody_answers(private_kafka, make_topic, check):
    """It is named, and every point that the others can tell is told."""
    cluster = private_kafka(nodes=3)
    topic = make_topic(cluster, 3)
    known = dict(list(cluster.proxied.items())[:2])
    with KafkaProxy(known) as proxy:
        code, found = check(proxy.bootstrap_servers, topic)
    assert code == 2
    (silent, answered) = of(found, "brokers")
    assert (silent[0], "node 3 does not answer" in silent[1]) == ("error", True)
    assert answered == ("ok", "2 of 3 answer")
    assert [level for level, _ in of(found, "version")] == ["ok", "ok"]
    assert of(found, "broker settings") == [("not known", "node 3 does not tell its settings")]
    assert of(found, "topic") == [("ok", f"{topic} has 3 partitions")]
    assert of(found, f"replication of {topic}") == [("ok", "factor 3, min.insync.replicas=2")]
    assert of(found, "transaction.partition.verification.enable")[0][0] == "ok"
    assert of(found, f"rights on topic {topic}") == [("ok", "DESCRIBE, READ, WRITE")]
    # Node 3 is the coordinator of some, and leads some: those are not known, and none is made ok.
    assert of(found, "open transactions")[0][0] == "not known"
    for point in ("rights on group twophase.orders", "rights on transactional id twophase.orders"):
        assert of(found, point)[0][0] in {"ok", "not known"}


def test_transactions_of_version_1(kafka39, make_topic, check):
    """Kafka 3.9.2 has no other: it is safe with partition verification, and said so."""
    _, found = check(kafka39.bootstrap_servers, make_topic(kafka39))
    ((level, said),) = of(found, "transaction.version")
    assert (level, said[:2] in {"0:", "1:"}) == ("ok", True)
    assert "safe with partition verification; 2 (Kafka 4.0 and newer)" in said
    assert of(found, "transaction.partition.verification.enable")[0][0] == "ok"
    assert of(found, "version") == [("ok", "node 1 is Kafka 3.9")]


# What a new cluster is told, and one that has made its internal topics so.
WRONG = {
    "transaction state on one disk": (
        {
            REPLICATION: 1,
            "transaction.state.log.min.isr": 1,
            "offsets.topic.replication.factor": 3,
            "min.insync.replicas": 1,
        },
        ("factor 1", "factor 3, min.insync.replicas=1"),
    ),
    "offsets on one disk": (
        {
            REPLICATION: 3,
            "transaction.state.log.min.isr": 1,
            "offsets.topic.replication.factor": 1,
            "min.insync.replicas": 1,
        },
        ("factor 3, min.insync.replicas=1", "factor 1"),
    ),
}


@pytest.mark.long
@pytest.mark.parametrize(("properties", "said"), WRONG.values(), ids=WRONG)
def test_internal_topics_that_lose_what_is_committed(
    private_kafka, make_topic, connect, check, properties, said
):
    """Each is a warning, by the topic as it is, whatever was asked for when it was made."""
    cluster = private_kafka(nodes=3, properties=properties)
    topic = make_topic(cluster)
    wire = connect(cluster.bootstrap_servers)
    transactions = Transactions(wire)
    identity = transactions.own("any")
    write(wire, identity, blocks(topic, named("row", 1)))
    transactions.commit(identity)
    found = []

    def both_are_there():
        # The first look for a group's coordinator makes the topic of offsets.
        found[:] = check(cluster.bootstrap_servers, topic)[1]
        return all(of(found, f"replication of {name}") for name in INTERNAL)

    wait_until(both_are_there, 60)
    for name, expected in zip(INTERNAL, said, strict=True):
        assert of(found, f"replication of {name}") == [("warning", expected)]


@pytest.mark.long
def test_internal_topics_that_cannot_be_made(private_kafka, make_topic, check):
    """More copies than brokers: no transaction can begin, which is told before the first one."""
    cluster = private_kafka(properties={REPLICATION: 3})
    code, found = check(cluster.bootstrap_servers, make_topic(cluster))
    ((level, said),) = of(found, "__transaction_state")
    assert (code, level) == (2, "error")
    assert said == f"it is not there yet, and {REPLICATION}=3 with 1 brokers"


@pytest.fixture
def old_kafka(private_kafka, monkeypatch):
    """A broker of before Kafka 3.6, which the package has no list of jars for."""
    text = (Path(__file__).parent / "jars" / f"kafka-{OLD}.txt").read_text("utf-8")
    own, load = jarset.JarSet.parse(f"kafka-{OLD}", text), jarset.load
    monkeypatch.setattr(jarset, "load", lambda name: own if name == own.name else load(name))
    monkeypatch.setattr(settings, "VERSIONS", (*settings.VERSIONS, OLD))
    return private_kafka(version=OLD)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_broker_that_is_too_old(old_kafka, make_topic, connect, check):
    """Its release and its missing partition verification are errors; a sink refuses it."""
    code, found = check(old_kafka.bootstrap_servers, make_topic(old_kafka))
    assert code == 2
    assert of(found, "version") == [("error", "node 1 is Kafka 3.5 or older")]
    ((level, said),) = of(found, "transaction.partition.verification.enable")
    assert (level, "older than Kafka 3.6" in said) == ("error", True)
    with pytest.raises(ConfigurationError, match=r"exactly-once needs Kafka 3\.6\.1 or newer"):
        check_fit(connect(old_kafka.bootstrap_servers))
