"""configure_spark, on a builder without a session."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from twophase.embedded import connector, jarset
from twophase.embedded.connector import ARTIFACT, SETS, connector_set
from twophase.errors import SetupError
from twophase.spark import session
from twophase.spark.session import configure_spark


@pytest.fixture
def builder(monkeypatch):
    """Return a builder of our own, with the connector at hand and no interpreter chosen."""
    monkeypatch.setattr(
        session, "fetch_jars", lambda name: (Path(f"/{name}/a.jar"), Path("/b.jar"))
    )
    monkeypatch.setenv("PYSPARK_PYTHON", "")
    monkeypatch.delenv("PYSPARK_PYTHON")
    builder = SparkSession.Builder()
    monkeypatch.setattr(builder, "_options", {}, raising=False)
    return builder


def test_adds_connector_and_interpreter(builder, monkeypatch):
    """Jars and interpreter are set, and the same builder is returned."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert configure_spark(builder) is builder
    assert builder._options["spark.jars"] == "/spark-kafka-4.2.0/a.jar,/b.jar"
    assert builder._options["spark.pyspark.python"] == sys.executable
    assert session.os.environ["PYSPARK_PYTHON"] == sys.executable


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("4.0.0", "spark-kafka-4.0.3"),
        ("4.0.9", "spark-kafka-4.0.3"),
        ("4.1.2", "spark-kafka-4.1.2"),
        ("4.2.0.dev1", "spark-kafka-4.2.0"),
    ],
)
def test_the_connector_is_that_of_the_spark_which_runs(builder, monkeypatch, version, name):
    """By its release line: what a connector calls of Spark is private to that."""
    monkeypatch.setattr(session.pyspark, "__version__", version)
    assert configure_spark(builder)._options["spark.jars"] == f"/{name}/a.jar,/b.jar"


def test_each_line_has_a_connector_of_its_own():
    """The list that is fetched for it holds that line's."""
    for line, name in SETS.items():
        (found,) = (jar.version for jar in jarset.load(name).jars if jar.artifact == ARTIFACT)
        assert connector_set(f"{line[0]}.{line[1]}.99") == name
        assert found.startswith(f"{line[0]}.{line[1]}.")


def test_a_spark_whose_connector_is_not_known(builder, monkeypatch):
    """Nothing is fetched: one sentence names the version and what to do, which then works."""
    monkeypatch.setattr(session.pyspark, "__version__", "4.7.1")
    with pytest.raises(SetupError) as caught:
        configure_spark(builder)
    said = str(caught.value)
    assert "pyspark 4.7.1 is installed here" in said
    assert builder._options == {}
    (name, value) = re.search(r"(spark\.jars\.packages)=([^,]+),", said).groups()
    assert value == f"org.apache.spark:{ARTIFACT}:4.7.1"
    configure_spark(builder.config(name, value))
    assert "spark.jars" not in builder._options


@pytest.mark.parametrize("setting", ["spark.jars", "spark.jars.packages"])
def test_a_connector_of_the_users_own_stays_alone(builder, setting):
    """Two of them on one class path would be a game of chance."""
    own = "/opt/spark-sql-kafka-0-10_2.13-4.2.0.jar,/opt/kafka-clients-3.9.1.jar"
    configure_spark(builder.config(setting, own), extra_jars=["/more.jar"])
    expected = f"{own},/more.jar" if setting == "spark.jars" else "/more.jar"
    assert builder._options["spark.jars"] == expected


def test_a_connector_among_pyspark_s_own_jars(builder, monkeypatch, tmp_path):
    """As an image may have it: none is added."""
    jar = tmp_path / "jars" / f"{ARTIFACT}-4.2.0.jar"
    jar.parent.mkdir()
    jar.touch()
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(connector.importlib.util, "find_spec", lambda _: spec)
    assert "spark.jars" not in configure_spark(builder)._options


def test_keeps_the_users_jars(builder):
    """Jars that were named before come first, none twice; extra ones come last."""
    builder.config("spark.jars", "/mine.jar,/b.jar")
    configure_spark(builder, extra_jars=[Path("/more.jar")])
    expected = "/mine.jar,/b.jar,/spark-kafka-4.2.0/a.jar,/more.jar"
    assert builder._options["spark.jars"] == expected
    assert configure_spark(builder)._options["spark.jars"] == expected


def test_unix_sockets_with_a_local_master_unless_the_user_chose(builder):
    """A cluster's temporary folders may have paths that are too long for a socket."""
    setting = "spark.python.unix.domain.socket.enabled"
    assert setting not in configure_spark(builder)._options
    for master in ("yarn", "local-cluster[2,1,1024]"):
        assert setting not in configure_spark(builder.master(master))._options
    assert configure_spark(builder.master("local[2]"))._options[setting] == "true"
    builder.config(setting, "false")
    assert configure_spark(builder)._options[setting] == "false"


def test_keeps_the_users_interpreter(builder, monkeypatch):
    """An interpreter chosen by variable or setting stays."""
    monkeypatch.setenv("PYSPARK_PYTHON", "/my/python")
    assert configure_spark(builder)._options["spark.pyspark.python"] == "/my/python"
    monkeypatch.delenv("PYSPARK_PYTHON")
    builder.config("spark.pyspark.python", "/set/python")
    assert configure_spark(builder)._options["spark.pyspark.python"] == "/set/python"
    assert session.os.environ["PYSPARK_PYTHON"] == "/set/python"


def test_spark_hides_login_modules_and_inline_keys(builder):
    """By name or by text, as Spark looks for them; what the user chose to hide stays."""
    setting = "spark.redaction.regex"
    hides = re.compile(configure_spark(builder)._options[setting])
    for hidden in (
        "kafka.sasl.jaas.config",
        "kafka.ssl.keystore.key",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----",
        "kafka.ssl.key.password",
    ):
        assert hides.search(hidden)
    assert not hides.search("kafka.bootstrap.servers")
    builder.config(setting, "mine")
    assert configure_spark(builder)._options[setting] == "mine"
