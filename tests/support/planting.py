"""Secrets planted wherever one can come from, and a driver that is given them and shows all."""

import base64
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import psycopg
from confluent_kafka import Producer

from support.canaries import canary
from support.secured import Right, prefixed

# Java's own client would try for a minute.
SHORT = {"request_timeout_ms": 5_000, "max_block_ms": 5_000, "default_api_timeout_ms": 6_000}
GOOD = {
    *("batch scope", "task scope", "job", "own writer of Spark"),
    *("PostgreSQL good", "PostgreSQL by-environment"),
}
QUERY = Path(__file__).parents[1] / "e2e" / "secret_query.py"
_MODULES = "org.apache.kafka.common.security"
# Beside what a cluster with users has by itself.
TAKES_TOKENS = {
    "listener.name.sasl_ssl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
    "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": (
        f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required"
        ' unsecuredLoginStringClaim_sub="broker";'
    ),
}


class Plant:
    """All secrets, and a folder for all that is written."""

    def __init__(self, folder):
        self.folder = folder
        names = ("sasl", "wrong", "key-phrase", "url", "environment", "token")
        self.secrets = {name: canary(name) for name in names}

    def properties(self, name, options):
        """Write a command's configuration outside of the folder that is searched."""
        path = self.folder.parent / f"{name}.properties"
        path.write_text("".join(f"{key}={escaped(value)}\n" for key, value in options.items()))
        return str(path)


def rows_to_copy(super_user, partitions=1):
    """Return a topic with twenty rows and one to write to, with the rights of who copies them."""
    topics = {name: super_user.make_topic(partitions) for name in ("source", "target")}
    super_user.grant(
        "etl",
        *(Right(operation, "topic", "topic*") for operation in ("READ", "WRITE")),
        Right("READ", "group", "twophase.*"),
        Right("WRITE", "transactional id", "twophase.*"),
    )
    producer = Producer(super_user.settings)
    for number in range(20):
        producer.produce(topics["source"], str(number).encode(), partition=number % partitions)
    assert producer.flush(30) == 0
    return topics


def named_by(name, cluster, plant):
    """Return the options of a sink, and of Spark's source, whose user is shown by this."""
    by_password = cluster.client_options("etl")
    if name == "certificate":
        encrypted = by_certificate(cluster, plant, plant.secrets["key-phrase"])
        # Java 17 cannot read a key that is encrypted as openssl does it.
        return encrypted, by_certificate(cluster, plant)
    if name == "token":
        # Neither Spark's source nor a command has a function to ask.
        return by_token(cluster), by_password
    return by_password, by_password


def escaped(value):
    """Return a value as a properties file has it."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def by_certificate(cluster, plant, phrase=None):
    """Options with a key inline, all of it a secret."""
    made = cluster._authority.issue("etl", password=phrase)
    # A line from the middle of the key stands for it.
    plant.secrets[f"private-key-{phrase}"] = made.key.splitlines()[2]
    options = cluster.client_options("etl", "SSL")
    del options["ssl.keystore.location"]
    options |= {"ssl.keystore.key": made.key, "ssl.keystore.certificate.chain": made.chain}
    return options | ({"ssl.key.password": phrase} if phrase else {})


def by_token(cluster):
    """Options that ask a token provider."""
    options = cluster.client_options("etl") | {"sasl.mechanism": "OAUTHBEARER"}
    del options["sasl.jaas.config"]
    return options


def token_with(secret, valid_s):
    """Return a token that a broker without an identity provider takes for as long, from now on."""
    now = time.time()
    claims = {"sub": "etl", "iat": now - 900, "exp": now + valid_s, "jti": secret}
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
    return ".".join([*(base64.urlsafe_b64encode(p).decode().rstrip("=") for p in parts), ""])


def wrong_ways(plant, good):
    """Return what is wrong beside good options, by a title: each with the secret in it."""
    wrong, login = plant.secrets["wrong"], good.get("sasl.jaas.config")
    if good.get("sasl.mechanism") == "OAUTHBEARER":
        return {
            "wrong password": {"kafka.sasl.jaas.config": wrong},
            "a token that has expired": {"token": token_with(wrong, -300)},
            "no token": {"token": f"\n{wrong}"},
            "a provider that raises": {"raises": wrong},
            "unknown option": {"kafka.sasl.oauthbearer.token": wrong},
            "wrong field": {"kafka.sasl.mechanism": f"token={wrong}"},
        }
    return {
        "wrong password": (
            {"kafka.sasl.jaas.config": login.replace(plant.secrets["sasl"], wrong)}
            if login
            else {"kafka.ssl.key.password": wrong}
        ),
        "no login module": {"kafka.sasl.jaas.config": wrong},
        "a key that is none": {"kafka.ssl.keystore.key": wrong},
        "a store that is none": {"kafka.ssl.truststore.certificates": wrong},
        "wrong field": {"kafka.sasl.mechanism": f"password={wrong}"},
        "unknown option": {"kafka.sasl.password": wrong},
        "code": {"kafka.sasl.login.class": wrong},
    }


def addresses(plant, postgres_url):
    """Return addresses of databases with secrets in them, well and badly written, by a title."""
    user, _, place = postgres_url.partition("://")[2].rpartition("@")
    login = f"{user.partition(':')[0]}:{plant.secrets['url']}"
    return {
        "good": f"postgresql://{login}@{place}",
        "by-environment": f"postgresql://{user.partition(':')[0]}@{place}",
        "no-such-database": f"postgresql://{login}@{place.partition('/')[0]}/nowhere",
        "no-server": f"postgresql://{login}@127.0.0.1:1/postgres",
        "slash-in-password": f"postgresql://{user}:a/{plant.secrets['url']}@{place}",
        "no-address": f"{plant.secrets['url']}",
        "unknown-word": f"host=127.0.0.1 passwd={plant.secrets['url']}",
    }


def table_at(postgres_url):
    """Make a table for the driver's rows, and return its name."""
    table = f"secret_{uuid4().hex[:10]}"
    with psycopg.connect(postgres_url) as connection:
        connection.execute(f"CREATE TABLE {table} (id int)")
    return table


def drive(plant, name, both, topics, *, table, urls, wrong, conf=(), timeout_s=280):
    """Run the driver that shows all it has; keep what it prints, logs and leaves.

    `both` are options of the sink and of Spark's source.
    """
    options, source_options = both
    folder = plant.folder / name
    (folder / "events").mkdir(parents=True)
    settings = {
        "folder": str(folder),
        **topics,
        "source options": prefixed(source_options, **SHORT),
        "table": table,
        "options": prefixed(options, **SHORT),
        "token": token_with(plant.secrets["token"], 3_600),
        "spark": {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": str(folder / "events"),
            **dict(conf),
        },
        "wrong": wrong,
        "urls": urls,
    }
    done = subprocess.run(
        [sys.executable, str(QUERY)],
        input=json.dumps(settings),
        capture_output=True,
        text=True,
        timeout=timeout_s,
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
        unread = title == "no login module" and "kafka.ssl.keystore.key" in settings["options"]
        good = title.partition(",")[0] in GOOD or unread
        assert ("Error" in text or "Exception" in text) != good, f"{title}: {text[-3000:]}"
    assert len(sections) // 2 == 5 + len(wrong) + 2 * len(urls)
