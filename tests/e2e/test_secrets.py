"""Secrets that were planted wherever one can come from are found in nothing that is written."""

import base64
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from support.canaries import canary, found_in
from support.secured import Right, SuperUser, prefixed

from twophase.embedded import EmbeddedKafka

# Java's own client would try for a minute.
SHORT = {"request_timeout_ms": 5_000, "max_block_ms": 5_000, "default_api_timeout_ms": 6_000}
GOOD = {
    *("batch scope", "task scope", "job", "own writer of Spark"),
    *("PostgreSQL good", "PostgreSQL by-environment"),
}
QUERY = Path(__file__).parent / "secret_query.py"


def test_the_search_finds_what_is_there(tmp_path):
    """In a text, in a pickle, in JSON and in base64 at each offset: so an empty hand says much."""
    secret = canary("planted")
    for number, text in enumerate(
        [
            f"password={secret};",
            json.dumps({"a": [f'x "{secret}"']}),
            *(
                base64.b64encode(b"x" * shift + secret.encode() + b"yz").decode()
                for shift in range(3)
            ),
            secret.encode().hex(),
        ]
    ):
        folder = tmp_path / str(number) / "deep"
        folder.mkdir(parents=True)
        (folder / "file").write_text(text)
        assert found_in(tmp_path / str(number), {"planted": secret}) == [("planted", "deep/file")]
    assert found_in(tmp_path, {"other": canary("other")}) == []


class Plant:
    """All secrets, and a folder for all that is written."""

    def __init__(self, folder):
        self.folder = folder
        self.secrets = {
            name: canary(name) for name in ("sasl", "wrong", "key-phrase", "url", "environment")
        }
        self.kafka = None

    def properties(self, name, options):
        """Write a command's configuration outside of the folder that is searched."""
        path = self.folder.parent / f"{name}.properties"
        escaped = {
            key: value.replace("\\", "\\\\").replace("\n", "\\n") for key, value in options.items()
        }
        path.write_text("".join(f"{key}={value}\n" for key, value in escaped.items()))
        return str(path)


def escaped(value):
    """Return a value as a properties file has it."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


@pytest.fixture
def plant(tmp_path):
    folder = tmp_path / "written"
    folder.mkdir()
    return Plant(folder)


def by_certificate(cluster, plant, phrase=None):
    """Options with a key inline, all of it a secret."""
    made = cluster._authority.issue("etl", password=phrase)
    # A line from the middle of the key stands for it.
    plant.secrets[f"private-key-{phrase}"] = made.key.splitlines()[2]
    options = cluster.client_options("etl", "SSL")
    del options["ssl.keystore.location"]
    options |= {"ssl.keystore.key": made.key, "ssl.keystore.certificate.chain": made.chain}
    return options | ({"ssl.key.password": phrase} if phrase else {})


@pytest.mark.long
@pytest.mark.parametrize("name", ["password", "certificate"])
def test_no_secret_is_found(plant, postgres_url, name):
    """Logs, errors, reprs, plans, event log, checkpoints, marker, decision log: none has one."""
    with EmbeddedKafka(users={"etl": plant.secrets["sasl"]}) as cluster:
        super_user = SuperUser(cluster)
        source, target = super_user.make_topic(), super_user.make_topic()
        super_user.grant(
            "etl",
            *(Right(operation, "topic", "topic*") for operation in ("READ", "WRITE")),
            Right("READ", "group", "twophase.*"),
            Right("WRITE", "transactional id", "twophase.*"),
        )
        producer = Producer(super_user.settings)
        for number in range(20):
            producer.produce(source, str(number).encode())
        assert producer.flush(30) == 0
        options = source_options = cluster.client_options("etl")
        if name == "certificate":
            options = by_certificate(cluster, plant, plant.secrets["key-phrase"])
            # Java 17 cannot read a key that is encrypted as openssl does it.
            source_options = by_certificate(cluster, plant)
        topics = {"source": source, "target": target}
        drive(plant, name, (options, source_options), topics, postgres_url)
        commands(plant, name, options, target)
        marker = super_user.admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions("twophase.batch")]
        )["twophase.batch"].result(30)
        (plant.folder / "marker.txt").write_text(
            "".join(f"{place} {place.metadata}\n" for place in marker.topic_partitions)
        )
        assert "batch" in (plant.folder / "marker.txt").read_text()
    everything = " ".join(str(path) for path in plant.folder.rglob("*"))
    # Event log, checkpoint, decision log, output.
    for expected in ("events/eventlog", "batch/offsets/0", "task/twophase/task/batch-", "stdout"):
        assert expected in everything, everything
    assert found_in(plant.folder, plant.secrets) == []


def drive(plant, name, both, topics, postgres_url):
    """Run the driver that shows all it has; keep what it prints, logs and leaves."""
    options, source_options = both
    folder = plant.folder / name
    (folder / "events").mkdir(parents=True)
    wrong = options.get("sasl.jaas.config", "").replace(
        plant.secrets["sasl"], plant.secrets["wrong"]
    )
    table = f"secret_{uuid4().hex[:10]}"
    with psycopg.connect(postgres_url) as connection:
        connection.execute(f"CREATE TABLE {table} (id int)")
    address = postgres_url.partition("://")[2]
    user, _, place = address.rpartition("@")
    login = f"{user.partition(':')[0]}:{plant.secrets['url']}"
    settings = {
        "folder": str(folder),
        **topics,
        "source options": prefixed(source_options, **SHORT),
        "table": table,
        "options": prefixed(options, **SHORT),
        "spark": {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": str(folder / "events"),
        },
        "wrong": {
            "wrong password": (
                {"kafka.sasl.jaas.config": wrong}
                if wrong
                else {"kafka.ssl.key.password": plant.secrets["wrong"]}
            ),
            "no login module": {"kafka.sasl.jaas.config": plant.secrets["wrong"]},
            "a key that is none": {"kafka.ssl.keystore.key": plant.secrets["wrong"]},
            "a store that is none": {"kafka.ssl.truststore.certificates": plant.secrets["wrong"]},
            "wrong field": {"kafka.sasl.mechanism": f"password={plant.secrets['wrong']}"},
            "unknown option": {"kafka.sasl.password": plant.secrets["wrong"]},
            "code": {"kafka.sasl.login.class": plant.secrets["wrong"]},
        },
        "urls": {
            "good": f"postgresql://{login}@{place}",
            "by-environment": f"postgresql://{user.partition(':')[0]}@{place}",
            "no-such-database": f"postgresql://{login}@{place.partition('/')[0]}/nowhere",
            "no-server": f"postgresql://{login}@127.0.0.1:1/postgres",
            "slash-in-password": f"postgresql://{user}:a/{plant.secrets['url']}@{place}",
            "no-address": f"{plant.secrets['url']}",
            "unknown-word": f"host=127.0.0.1 passwd={plant.secrets['url']}",
        },
    }
    done = subprocess.run(
        [sys.executable, str(QUERY)],
        input=json.dumps(settings),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env=os.environ | {"PGPASSWORD": plant.secrets["environment"]},
    )
    (folder / "stdout.txt").write_text(done.stdout)
    (folder / "stderr.txt").write_text(done.stderr)
    assert done.returncode == 0, done.stderr[-3000:]
    # What was to go well did, and what was to fail did: both ways were seen.
    sections = re.split(r"^== (.*), at \d+ s$", done.stdout, flags=re.MULTILINE)[1:]
    for title, text in zip(sections[::2], sections[1::2], strict=True):
        # A login module is not even read with SSL.
        good = title.partition(",")[0] in GOOD or (title == "no login module" and not wrong)
        assert ("Error" in text or "Exception" in text) != good, f"{title}: {text[-3000:]}"


def commands(plant, name, options, target):
    """Run commands with files that hold secrets, well and badly written."""
    files = {
        "good": options,
        "wrong": options | {"sasl.jaas.config": plant.secrets["wrong"]},
        "misnamed": options | {"sasl.passwrd": plant.secrets["wrong"]},
        "broken": options | {"ssl.keystore.key": f"\\u{plant.secrets['wrong']}"},
    }
    for title, written in files.items():
        config = plant.properties(title, written)
        for command in (
            ["check", "--sink-id", "batch", "--topic", target, "--output", "json"],
            ["sinks", "show", "batch"],
            ["transactions", "list"],
        ):
            done = subprocess.run(
                [sys.executable, "-m", "twophase", *command, "--command-config", config],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert "Traceback" not in done.stderr
            path = plant.folder / name / f"command-{title}-{command[0]}.txt"
            path.write_text(done.stdout + done.stderr)
