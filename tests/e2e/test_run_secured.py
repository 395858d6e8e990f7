"""`twophase run` where every listener asks who is there: secrets by reference, few rights."""

import json
from uuid import uuid4

import pytest
import yaml
from confluent_kafka import Producer
from support.canaries import canary, found_in
from support.pipelines import QUICK_JAVA, begin, finish, quick, run_here
from support.rights import names, rights_of
from support.secured import Right, SuperUser, prefixed

from twophase.embedded import EmbeddedKafka
from twophase.errors import AccessDenied
from twophase.pipeline.endings import Ending, ending_of
from twophase.pipeline.events import BatchDone, Restarting
from twophase.pipeline.load import load_pipeline

# What JAAS and YAML would each take for something else.
PASSWORD = canary("sasl") + "\"\\ #:${x}'%"
MODULES = "org.apache.kafka.common.security"
# A right that is missing is no reason to wait for long.
OF_THE_SOURCE = {"kafka.request.timeout.ms": 5_000, "kafka.default.api.timeout.ms": 10_000}
OF_THE_SINK = {"kafka.request.timeout.ms": 5_000, "kafka.max.block.ms": 10_000}

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def secured():
    with EmbeddedKafka(users={"etl": PASSWORD}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def super_user(secured):
    return SuperUser(secured)


class Ways:
    """How a file says who it is; what it refers to lies outside of the folder that is searched."""

    def __init__(self, cluster, folder, monkeypatch):
        self.cluster, self.folder, self.monkeypatch = cluster, folder, monkeypatch
        folder.mkdir()
        self.secrets = {"sasl": PASSWORD.partition('"')[0]}

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text + "\n")
        return f"${{file:{path}}}"

    def options(self, protocol, mechanism=None):
        given = self.cluster.client_options("etl", protocol, mechanism or "PLAIN")
        return {name: text for name, text in given.items() if name != "sasl.jaas.config"}

    def scram(self):
        """A password from the environment, in a login module that is written out."""
        self.monkeypatch.setenv("ETL_PASSWORD", PASSWORD)
        module = f"{MODULES}.scram.ScramLoginModule"
        login = f'{module} required username="etl" password="${{env:ETL_PASSWORD}}";'
        return self.options("SASL_SSL", "SCRAM-SHA-512") | {"sasl.jaas.config": login}

    def plain(self):
        """A password from a file, and the authority's certificate from another."""
        options = self.options("SASL_SSL")
        authority = self.cluster.secured.authority_file.read_text()
        del options["ssl.truststore.location"]
        options["ssl.truststore.certificates"] = self.file("authority", authority)
        place = self.file("password", PASSWORD)
        login = f'{MODULES}.plain.PlainLoginModule required username="etl" password="{place}";'
        return options | {"sasl.jaas.config": login}

    def login_module(self):
        """The whole login module from the environment."""
        given = self.cluster.client_options("etl")
        self.monkeypatch.setenv("ETL_LOGIN", given["sasl.jaas.config"])
        return given | {"sasl.jaas.config": "${env:ETL_LOGIN}"}

    def plain_in_clear(self):
        """A password that everybody on the way can read."""
        login = self.scram()["sasl.jaas.config"].replace("scram.Scram", "plain.Plain")
        return self.options("SASL_PLAINTEXT") | {"sasl.jaas.config": login}

    def any_host(self):
        """Certificates that may be of any host."""
        return self.scram() | {"ssl.endpoint.identification.algorithm": ""}

    def certificate(self):
        """Key and certificate inline, each from a file."""
        made = self.cluster._authority.issue("etl")
        # A line from the middle of the key stands for it.
        self.secrets["key"] = made.key.splitlines()[2]
        options = self.options("SSL")
        del options["ssl.keystore.location"]
        options["ssl.keystore.key"] = self.file("key", made.key)
        return options | {"ssl.keystore.certificate.chain": self.file("chain", made.chain)}


def logging_at_debug(folder):
    """Return what lets a JVM log far more than it does by default."""
    path = folder / "log4j2.properties"
    path.write_text("""\
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = console
logger.kafka.name = org.apache.kafka
logger.kafka.level = debug
logger.connector.name = org.apache.spark.sql.kafka010
logger.connector.level = debug
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c: %m%n%ex
""")
    return f"-Dlog4j2.configurationFile=file://{path}"


@pytest.fixture
def ways(secured, tmp_path, monkeypatch):
    return Ways(secured, tmp_path / "secrets", monkeypatch)


class Place:
    """A file in a folder of its own, its topics, and exactly the rights that it needs."""

    def __init__(self, super_user, folder, options, **more):
        folder.mkdir()
        (folder / "events").mkdir()
        self.super_user, self.folder = super_user, folder
        self.source, self.target = super_user.make_topic(2), super_user.make_topic(2)
        self.sink_id, self.name = f"sink-{uuid4().hex[:8]}", canary("name")
        self.to_read = Right("READ", "topic", self.source)
        self.rights = (
            self.to_read,
            *rights_of("batch scope", topic=self.target, sink=self.sink_id),
        )
        super_user.grant("etl", *self.rights)
        self.count = 0
        self.path = folder / "p.yaml"
        conf = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": f"file://{folder}/events",
            "spark.driver.extraJavaOptions": f"{QUICK_JAVA} {logging_at_debug(folder)}",
        }
        query = "SELECT key, CAST(2 * CAST(CAST(value AS STRING) AS INT) AS STRING) AS value"
        text = {
            "name": self.name,
            "kafka": prefixed(options),
            "source": {
                "kafka": {
                    "topic": self.source,
                    "max_rows_per_batch": 10,
                    "options": OF_THE_SOURCE,
                }
            },
            "steps": [{"sql": f"{query} FROM source"}],
            "sinks": [
                {"kafka": {"sink_id": self.sink_id, "topic": self.target, "options": OF_THE_SINK}}
            ],
            "checkpoint": "checkpoint",
            "spark": quick(conf),
        }
        self.path.write_text(yaml.safe_dump(text | more))

    def add(self, count):
        producer = Producer(self.super_user.settings)
        for number in range(self.count, self.count + count):
            producer.produce(self.source, str(number).encode(), partition=number % 2)
        assert producer.flush(30) == 0
        self.count += count

    def run(self, *more):
        """Run the command until the source is used up; keep all that it says."""
        process = begin(
            self.path, "--available-now", "--spark-log", str(self.folder / "spark.log"), *more
        )
        code, told, err = finish(process)
        with (self.folder / "said").open("a") as said:
            said.write(json.dumps(told) + err)
        return code, told, err

    def written(self):
        return sorted(int(value) for value in self.super_user.values(self.target))

    def is_whole(self):
        assert self.written() == [2 * number for number in range(self.count)]

    def hides(self, secrets):
        """No secret is found in it; what is none is found wherever one could be."""
        shown = found_in(self.folder, {"name": self.name, "topic": self.source})
        places = {place.partition("/")[0] for _, place in shown}
        assert places >= {"p.yaml", "events", "checkpoint", "spark.log", "said"}, places
        assert found_in(self.folder, secrets) == []


@pytest.mark.parametrize("way", ["scram", "plain", "login_module", "certificate"])
def test_over_tls(super_user, ways, tmp_path, way):
    """Each row once, with exactly the rights of docs/security.md; no secret is found anywhere."""
    place = Place(super_user, tmp_path / "run", getattr(ways, way)())
    place.add(20)
    code, told, err = place.run()
    assert (code, err, told[-1]["event"]) == (0, "", "stopped"), err
    assert told[-1]["why"] == "the source is used up"
    place.is_whole()
    place.hides(ways.secrets)


@pytest.mark.parametrize(
    ("way", "said"),
    [
        (
            "plain_in_clear",
            "kafka.sasl.mechanism=PLAIN without TLS: everybody on the way reads the",
        ),
        ("any_host", "kafka.ssl.endpoint.identification.algorithm is empty: host names are not"),
    ],
)
def test_a_risk_is_told_once(super_user, ways, tmp_path, way, said):
    """The file was checked in silence: who runs it is warned, by one line, and it runs."""
    place = Place(super_user, tmp_path / "run", getattr(ways, way)())
    place.add(10)
    code, _, err = place.run()
    assert (code, len(err.splitlines())) == (0, 1), err
    assert err.startswith(f"WARNING: {said}")
    place.is_whole()
    place.hides(ways.secrets)


def test_the_search_would_find_one(super_user, ways, tmp_path):
    """The same run with a secret where Spark may show it, and the same search."""
    place = Place(super_user, tmp_path / "run", ways.scram())
    leaking = ways.secrets["sasl"]
    text = place.path.read_text()
    place.path.write_text(text.replace("FROM source", f"FROM source WHERE key <> '{leaking}'"))
    place.add(1)
    assert place.run()[0] == 0
    found = {name.partition("/")[0] for _, name in found_in(place.folder, ways.secrets)}
    assert found >= {"p.yaml", "events"}, found


def test_a_wrong_password(super_user, ways, tmp_path, monkeypatch):
    """One sentence and exit code 3; neither the wrong one nor the right one is shown."""
    place = Place(super_user, tmp_path / "run", ways.scram())
    place.add(10)
    wrong = canary("wrong")
    monkeypatch.setenv("ETL_PASSWORD", wrong)
    code, told, err = place.run()
    assert (code, [each["event"] for each in told]) == (3, ["failed"]), err
    assert told[0]["error"].startswith("TWOPHASE_ACCESS_DENIED: ")
    assert "\n" not in told[0]["error"]
    assert not (place.folder / "checkpoint").exists()
    monkeypatch.setenv("ETL_PASSWORD", PASSWORD)
    assert place.run()[0] == 0
    place.is_whole()
    place.hides(ways.secrets | {"wrong": wrong})


@pytest.mark.parametrize("missing", ["source", "transactional id"])
def test_a_missing_right_by_the_command(super_user, ways, tmp_path, missing):
    """One sentence that names it, exit code 3, nothing lost; after the grant the run finishes."""
    place = Place(super_user, tmp_path / "run", ways.scram())
    right = {"source": place.to_read, "transactional id": place.rights[-1]}[missing]
    place.add(10)
    super_user.revoke("etl", right)
    code, told, err = place.run()
    assert (code, told[-1]["event"], told[-1]["code"]) == (3, "failed", 3), err
    assert "restarting" not in {each["event"] for each in told}
    assert told[-1]["error"].startswith("TWOPHASE_ACCESS_DENIED: ")
    assert names(right, told[-1]["error"]), told[-1]["error"]
    assert "\n" not in told[-1]["error"]
    assert place.written() == []
    super_user.grant("etl", right)
    assert place.run()[0] == 0
    place.is_whole()
    place.hides(ways.secrets)


def test_each_right(spark, super_user, ways, tmp_path):
    """Without any one it ends in a sentence that names it; after the grant no row is missing."""
    place = Place(super_user, tmp_path / "run", ways.scram(), restarts=1)
    place.add(10)
    run_here(place.path, spark)
    for right in place.rights:
        place.add(10)
        before = place.written()
        super_user.revoke("etl", right)
        with pytest.raises(AccessDenied) as caught:
            reached(place.path, spark)
        said = str(caught.value)
        assert names(right, said), f"{right}: {said}"
        assert ending_of(caught.value) is Ending.NEEDS_A_PERSON
        assert place.written() == before
        super_user.grant("etl", right)
        reached(place.path, spark)
        place.is_whole()


def reached(path, spark):
    """Run a file as the command does: the stores are asked first."""
    load_pipeline(path).reach()
    return run_here(path, spark)


@pytest.mark.parametrize("left", ["", "DESCRIBE"])
def test_the_right_to_read_is_lost_while_it_runs(spark, super_user, ways, tmp_path, left):
    """Not started again and again: the run ends at once, and names what Spark's source lacks."""
    place = Place(super_user, tmp_path / "run", ways.scram())
    place.add(10)
    told = []

    def lose_it(event):
        told.append(event)
        if isinstance(event, BatchDone) and event.record.error is None:
            if left:
                super_user.grant("etl", Right(left, "topic", place.source))
            super_user.revoke("etl", place.to_read)
            place.add(10)

    with pytest.raises(AccessDenied) as caught:
        run_here(place.path, spark, tell=lose_it, available_now=False)
    assert not any(isinstance(event, Restarting) for event in told)
    assert names(place.to_read, caught.value), caught.value
    super_user.grant("etl", place.to_read)
    reached(place.path, spark)
    place.is_whole()
