"""The README's way from an empty machine to rows in Kafka and PostgreSQL, as it stands there."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest
from support.readers import read

from twophase.embedded import fetch_jars
from twophase.embedded.ports import free_ports

ROOT = Path(__file__).parents[2]
# As README has it.
PORT, ADDRESS = "9092", "127.0.0.1:9092"

pytestmark = pytest.mark.long


def steps():
    """Return the commands of README's section, each with the lines that it prints there."""
    section = (ROOT / "README.md").read_text().partition("## Without code")[2]
    found = []
    for line in section.partition("```\n")[2].partition("\n```")[0].splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        else:
            found[-1][1].append(line)
    return found


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A folder with the examples, and a cache folder that has jars but no Kafka; return a port."""
    (tmp_path / "cache").mkdir()
    (jars,) = {path.parents[1] for path in fetch_jars("kafka-4.3.1")}
    (tmp_path / "cache" / "jars").symlink_to(jars)
    monkeypatch.setenv("TWOPHASE_HOME", str(tmp_path / "cache"))
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (port,) = free_ports(1)
    for path in (tmp_path / "examples").glob("*.yaml"):
        path.write_text(path.read_text().replace(ADDRESS, f"127.0.0.1:{port}"))
    monkeypatch.chdir(tmp_path)
    yield port
    subprocess.run([sys.executable, "-m", "twophase", "kafka", "stop"], check=True)


@pytest.fixture
def database(postgres_url):
    """An empty database of the test's own."""
    name = f"readme_{uuid4().hex[:8]}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield urlsplit(postgres_url)._replace(path=f"/{name}").geturl()
        connection.execute(f"DROP DATABASE {name}")


def test_every_command_and_what_it_prints(machine, database, monkeypatch):
    """Kafka started, three files run, a table made: the very words, and every order once."""
    ran = []
    for command, expected in steps():
        name, *arguments = shlex.split(command)
        ran.append(arguments)
        if name == "export":
            assert arguments[0].startswith("POSTGRES_URL=postgresql://")
            monkeypatch.setenv("POSTGRES_URL", database)
        elif name == "psql":
            assert arguments[:2] == ["$POSTGRES_URL", "-c"]
            with psycopg.connect(database) as connection:
                assert [connection.execute(arguments[2]).statusmessage] == expected
        else:
            assert name == "twophase"
            assert said(arguments, machine) == [steady(line) for line in expected], command
    files = [path for _, path, *_ in (each for each in ran if each[0] == "run")]
    assert files == [f"examples/{name}.yaml" for name in ("orders-in", "orders", "orders-postgres")]
    are_there(f"127.0.0.1:{machine}", database)


def said(arguments, port):
    """Run the command and return its lines, with README's port in them."""
    done = subprocess.run(
        [sys.executable, "-m", "twophase", *(each.replace(PORT, str(port)) for each in arguments)],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        timeout=180,
    )
    text = done.stdout.replace(f"127.0.0.1:{port}", ADDRESS)
    return [steady(line) for line in text.splitlines()]


def steady(line):
    """Return a line without the folder of the files, and without what depends on the moment."""
    line = re.sub(r"(, [\d,]+ rows/s)?(, lag \d+)?$", "", line)
    return re.sub(r"FileStreamSource\[.*\]", "FileStreamSource[...]", line)


def are_there(servers, database):
    """All orders came, and those that are paid went on, each once, to both stores."""
    rows = [json.loads(row.value) for row in read(servers, "orders")]
    paid = sorted(row["id"] for row in rows if row["amount"] > 0)
    assert (len(rows), len(paid)) == (60, 57)
    clean = [json.loads(row.value) for row in read(servers, "orders-clean")]
    assert sorted(row["id"] for row in clean) == paid
    assert {row["customer"] for row in clean} == {"ADA", "GRACE", "EDSGER", "BARBARA", "DONALD"}
    assert sorted(json.loads(row.value)["id"] for row in read(servers, "orders-paid")) == paid
    with psycopg.connect(database) as connection:
        found = connection.execute("SELECT id FROM orders ORDER BY id").fetchall()
    assert [each for (each,) in found] == paid


def test_the_example_says_the_same():
    """The head of the file names the same table and topic as README."""
    head = (ROOT / "examples" / "orders-postgres.yaml").read_text().partition("\nkafka:")[0]
    commands = [command for command, _ in steps()]
    (table,) = (shlex.split(each)[3] for each in commands if each.startswith("psql "))
    assert f"#   {table};\n" in head
    for each in commands[-2:]:
        assert f"#   {each}" in head
