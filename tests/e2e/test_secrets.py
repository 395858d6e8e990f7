"""Secrets that were planted wherever one can come from are found in nothing that is written."""

import base64
import json
import subprocess
import sys

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from support.canaries import canary, found_in
from support.planting import (
    TAKES_TOKENS,
    Plant,
    addresses,
    drive,
    named_by,
    rows_to_copy,
    table_at,
    wrong_ways,
)
from support.secured import SuperUser

from twophase.embedded import EmbeddedKafka


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


@pytest.fixture
def plant(tmp_path):
    folder = tmp_path / "written"
    folder.mkdir()
    return Plant(folder)


@pytest.mark.long
@pytest.mark.parametrize("name", ["password", "certificate", "token"])
def test_no_secret_is_found(plant, postgres_url, name):
    """Logs, errors, reprs, plans, event log, checkpoints, marker, decision log: none has one."""
    users = {"etl": plant.secrets["sasl"]}
    with EmbeddedKafka(users=users, properties=TAKES_TOKENS) as cluster:
        super_user = SuperUser(cluster)
        topics = rows_to_copy(super_user)
        options, source_options = named_by(name, cluster, plant)
        drive(
            *(plant, name, (options, source_options), topics),
            table=table_at(postgres_url),
            urls={} if name == "token" else addresses(plant, postgres_url),
            wrong=wrong_ways(plant, options),
        )
        commands(plant, name, source_options if name == "token" else options, topics["target"])
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
