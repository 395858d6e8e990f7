"""Secrets that a Connect client gives a sink are found in nothing that the server writes."""

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer
from support.canaries import canary, found_in
from support.rights import rights_of
from support.secured import Right, SuperUser, prefixed

from twophase.embedded import EmbeddedKafka

from .test_connect import SETTINGS, Client, Query

pytestmark = pytest.mark.long

SHORT = {"request_timeout_ms": 5_000, "max_block_ms": 5_000}


@pytest.fixture(scope="module")
def secrets():
    return {name: canary(name) for name in ("sasl", "phrase", "wrong")}


@pytest.fixture(scope="module")
def secured(secrets):
    with EmbeddedKafka(users={"etl": secrets["sasl"]}) as cluster:
        yield cluster


@pytest.fixture
def written(tmp_path):
    folder = tmp_path / "written"
    (folder / "events").mkdir(parents=True)
    return folder


@pytest.fixture
def client(written):
    settings = SETTINGS | {
        "spark.log.level": "DEBUG",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{written}/events",
    }
    with (written / "server.log").open("w") as log:
        client = Client(log, settings)
        yield client
        client.close()


def by_certificate(cluster, secrets, phrase):
    """Options with an inline key, of which a line from the middle is searched for."""
    made = cluster._authority.issue("etl", password=phrase)
    secrets[f"key-{phrase}"] = made.key.splitlines()[2]
    options = cluster.client_options("etl", "SSL")
    del options["ssl.keystore.location"]
    options |= {"ssl.keystore.key": made.key, "ssl.keystore.certificate.chain": made.chain}
    return options | ({"ssl.key.password": phrase} if phrase else {})


def test_no_secret_of_a_sink_is_found(client, secured, secrets, written):
    """In no log at DEBUG, event log, checkpoint or error, well and badly written."""
    super_user, wrong = SuperUser(secured), secrets["wrong"]
    by_password = secured.client_options("etl")
    login = by_password["sasl.jaas.config"].replace(secrets["sasl"], wrong)
    ways = (
        ("routed", by_password, ({"sasl.jaas.config": login}, {"sasl.password": wrong})),
        ("driver", by_certificate(secured, secrets, None), ({"ssl.keystore.key": wrong},)),
        (
            "routed",
            by_certificate(secured, secrets, secrets["phrase"]),
            ({"ssl.key.password": wrong}, {"ssl.truststore.certificates": wrong}),
        ),
    )
    answers, shown = [], canary("shown")
    for number, (path, good, bad) in enumerate(ways):
        topic = super_user.make_topic()
        folder = written / str(number)
        folder.mkdir()
        query = Query(client, folder, "", topic)
        super_user.grant("etl", *rights_of("batch scope", topic=topic, sink=query.sink["sink_id"]))
        query.sink["options"] = prefixed(good, **SHORT)
        query.files.add({"k": "a", "v": "once"})
        notes, error = query.run(("k AS key", f"'{shown}' AS value"), path=path)
        assert (error, [note[:3] for note in notes]) == (None, [[0, "committed", path]])
        assert super_user.values(topic) == [shown.encode()]
        query.files.add({"k": "a", "v": "never"})
        for at, each in enumerate(bad):
            options = prefixed(good | each, **SHORT)
            if at == 0:
                # The others are refused when the sink is made, in the client.
                _, error = query.run(path=path, options=options)
                assert "TWOPHASE_" in error
                answers.append(error)
            said = client.ask("call", number=1, sink=query.sink | {"options": options})
            assert said[1].startswith("TWOPHASE_"), said
            answers.append(said)
    (written / "answers").write_text(json.dumps(answers))
    client.close()
    # What is no secret is found, wherever one would be.
    places = {place.partition("/")[0] for _, place in found_in(written, {"shown": shown})}
    assert places >= {"server.log", "events"}, places
    assert found_in(written, secrets) == []


def test_what_spark_shows_of_a_source(client, secured, secrets, written):
    """A password among a source's options is in the event log; a key in a file is nowhere."""
    super_user = SuperUser(secured)
    in_a_file = secured.client_options("etl", "SSL")
    secrets["file"] = Path(in_a_file["ssl.keystore.location"]).read_text().splitlines()[2]
    of_the_sink = prefixed(by_certificate(secured, secrets, None), **SHORT)
    for number, options in enumerate((in_a_file, secured.client_options("etl"))):
        source, topic = super_user.make_topic(), super_user.make_topic()
        (written / str(number)).mkdir()
        query = Query(client, written / str(number), "", topic)
        super_user.grant(
            "etl",
            Right("READ", "topic", source),
            *rights_of("batch scope", topic=topic, sink=query.sink["sink_id"]),
        )
        query.sink["options"] = of_the_sink
        producer = Producer(super_user.settings)
        producer.produce(source, b"once")
        assert producer.flush(30) == 0
        given = prefixed(options) | {"subscribe": source, "startingOffsets": "earliest"}
        _, error = query.run(("value",), source={"format": "kafka", "options": given})
        assert error is None
        assert super_user.values(topic) == [b"once"]
    client.close()
    found = {(name, place.partition("/")[0]) for name, place in found_in(written, secrets)}
    # The second query's, and as docs/security.md says: Spark's own event of the plan.
    assert found == {("sasl", "events")}
