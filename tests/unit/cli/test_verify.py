"""What `twophase verify` says before it touches any cluster, and what its exit codes mean."""

import click
import pytest

from twophase.cli.main import run
from twophase.cli.verify import verify
from twophase.cli.verify_conf import read_conf
from twophase.cli.verify_text import FOUND, OK, UNPROVED, code_of, said_of
from twophase.verify.allowed import (
    LOCAL,
    LOCAL_CLUSTER,
    by_name,
    executor_conf,
    first_of,
    kinds_of,
    master_for,
    read_names,
)
from twophase.verify.chaos import FAULTS
from twophase.verify.proof import Proof, unproved
from twophase.verify.verdict import Finding, Kind, Verdict

SECRET = "hunter2"
SERVER = ["--bootstrap-server", "127.0.0.1:1"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give --bootstrap-server HOST:PORT, a --command-config FILE"),
        ([*SERVER, "--embedded"], "--embedded makes its own cluster"),
        ([*SERVER, "--faults", "kill-drivr"], "did you mean kill-driver?"),
        ([*SERVER, "--faults", ","], "without faults nothing is proved"),
        ([*SERVER, "--faults", "kill-broker"], "kill-broker is for --embedded only"),
        (
            [*SERVER, "--faults", "kill-executor", "--master", "spark://host:7077"],
            "kill-executor cannot be done with --master spark://host:7077",
        ),
        ([*SERVER, "--master", "local-cluster[2,1]"], "local-cluster[2,1] starts no executors"),
        ([*SERVER, "--master", "local-cluster[2,1,256]"], "with 512 MB or more"),
        ([*SERVER, "--for", "soon"], "'soon' is no time from 10s to 24h"),
        ([*SERVER, "--for", "9s"], "'9s' is no time from 10s to 24h"),
        ([*SERVER, "--for", "24h", "--rate", "1000000"], "at most 100,000,000 can be checked"),
        ([*SERVER, "--report", "/no/such/folder/r.html"], "/no/such/folder is no folder"),
        (["--bootstrap-server", "nowhere"], "kafka.bootstrap.servers"),
        ([*SERVER, "--id-column", "order_id"], "--id-column belongs to --pipeline"),
        (["--embedded", "2"], "'2' is not one of '1', '3'"),
        ([*SERVER, "--conf", "spark.executor.cores"], "write spark.NAME=VALUE"),
        ([*SERVER, "--conf", "executor.cores=1"], "'executor.cores' is no setting of Spark"),
        ([*SERVER, "--conf", "spark.master=yarn"], "spark.master cannot be given: write --master"),
        ([*SERVER, "--conf", "spark.sql.streaming.minBatchesToRetain=2"], "the plans of all"),
        (
            [*SERVER, "--faults", "kill-executor", "--conf", "spark.executor.memory=2g"],
            "with --master local-cluster[2,1,1024], which has it in MB",
        ),
        ([*SERVER, "--conf", f"spark.hadoop.fs.s3a.secret.key={SECRET}"], "SPARK_CONF_DIR names"),
        (
            [*SERVER, "--conf", f"spark.driver.extraJavaOptions=-Da.password={SECRET}"],
            "spark.driver.extraJavaOptions holds a secret",
        ),
    ],
)
def test_wrong_use(arguments, said, capsys):
    """One sentence, and exit code 2; nothing has begun."""
    assert run(["verify", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
    assert SECRET not in error


def test_settings_of_spark():
    """By name; the last one of a name counts, and a value may have what a name has not."""
    given = [
        "spark.a=1",
        "spark.b= -Dx=y -Dz=${env:SECRET} ",
        "spark.a=2",
        "spark.executor.memory=2g",
    ]
    assert read_conf(given, LOCAL) == {
        "spark.a": "2",
        "spark.b": "-Dx=y -Dz=${env:SECRET}",
        "spark.executor.memory": "2g",
    }


FILE = """\
source:
  kafka:
    topic: orders
    options: {kafka.bootstrap.servers: "127.0.0.1:1"}
sinks:
  - kafka:
      sink_id: orders
      topic: orders-clean
      options: {kafka.bootstrap.servers: "127.0.0.1:1"}
checkpoint: checkpoint
"""


@pytest.mark.parametrize(
    ("change", "arguments", "said"),
    [
        ((), [], "--pipeline needs --id-column NAME"),
        ((), ["--id-column", "key", *SERVER], "says itself where its cluster is"),
        ((), ["--id-column", "key", "--guarantee", "none"], "are as the pipeline has them"),
        (("topic: orders\n", "topic: a,b\n"), ["--id-column", "key"], "its source is kafka a,b"),
        (
            ("127.0.0.1:1", "127.0.0.1:2"),
            ["--id-column", "key"],
            "its source and sink are on two clusters",
        ),
        (
            (
                "topic: orders-clean",
                "topic: a\n      on_reject: dead-letter\n      dead_letter_topic: b",
            ),
            ["--id-column", "key"],
            "its sink has a dead_letter_topic",
        ),
        (("topic:", "tpic:"), ["--id-column", "key"], "did you mean topic"),
    ],
)
def test_a_pipeline_that_cannot_be_verified(change, arguments, said, tmp_path, capsys):
    """One sentence, or the mistakes of the file; exit code 2."""
    path = tmp_path / "orders.yaml"
    path.write_text(FILE.replace(*change, 1) if change else FILE)
    assert run(["verify", "--pipeline", str(path), *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


@pytest.mark.parametrize("of_a_file", [False, True])
def test_no_broker_there(tmp_path, monkeypatch, capsys, of_a_file):
    """Nothing was proved, which is no finding; said before anything is fetched for Spark."""
    monkeypatch.setenv("TWOPHASE_HOME", str(tmp_path / "cache"))
    config = tmp_path / "quick.properties"
    config.write_text("max.block.ms=500\nbootstrap.servers=127.0.0.1:1\n")
    path = tmp_path / "orders.yaml"
    path.write_text(
        FILE.replace("clean\n      options: {", "clean\n      options: {kafka.max.block.ms: 500, ")
    )
    what = ["--pipeline", str(path), "--id-column", "key"]
    assert run(["verify", *(what if of_a_file else ["--command-config", str(config)])]) == 3
    assert not (tmp_path / "cache").exists()
    said = capsys.readouterr().err
    assert said.startswith("nothing was proved: ")
    assert "no answer from kafka.bootstrap.servers=127.0.0.1:1" in said
    assert "Traceback" not in said


def test_help_teaches():
    """An example, what is done to the cluster, and what the exit codes mean."""
    with click.Context(verify) as context:
        said = " ".join(verify.get_help(context).split())
    assert "Example" in said
    assert "No other topic, group or id is touched" in said
    assert "Exit codes: 0 nothing was lost, doubled, torn, reordered or left open" in said


def test_every_name_stands_for_faults_that_there_are():
    """And a freeze past the timeout comes only where the time is long enough for it."""
    names = read_names("kill-driver, pause,kill-executor,kill-broker,pause")
    assert names == ("kill-driver", "pause", "kill-executor", "kill-broker")
    short, long = kinds_of(names, 60, 60), kinds_of(names, 240, 60)
    assert set(short) < set(long) <= set(FAULTS)
    assert set(long) - set(short) == {"driver frozen past the timeout"}
    assert by_name(names, dict.fromkeys(long, 1)) == {
        "kill-driver": 2,
        "pause": 2,
        "kill-executor": 1,
        # A broker that was stopped for a while was not killed.
        "kill-broker": 1,
    }
    first = first_of(names)
    assert set(first) <= set(short)
    assert set(by_name(names, dict.fromkeys(first, 1)).values()) == {1}


def test_executors_are_killed_only_where_there_are_some():
    """Local executors are threads of the driver, so killing one needs another master."""
    assert master_for(["kill-driver"], None, embedded=False) == LOCAL
    assert master_for(["kill-executor"], None, embedded=False) == LOCAL_CLUSTER
    assert master_for(["kill-driver"], "spark://host:7077", embedded=True) == "spark://host:7077"


def test_executors_fit_into_their_workers():
    """Spark waits for ever for an executor that no worker has the memory for."""
    assert executor_conf(LOCAL_CLUSTER) == {"spark.executor.memory": "768m"}
    assert executor_conf("local-cluster[2, 1, 600]") == {"spark.executor.memory": "600m"}
    assert executor_conf(LOCAL) == executor_conf("spark://host:7077") == {}


def judged(rows_out=9, faults=None, **counts):
    """A proof with these findings; all others were looked for and not found."""
    findings = tuple(Finding(kind, counts.get(kind.name.lower(), 0)) for kind in Kind)
    verdict = Verdict("twophase", 9, rows_out, 0.0, findings)
    faults = {"kill-driver": 1} if faults is None else faults
    return Proof(verdict, faults, unproved(verdict, faults), chaos=None, history=None)


@pytest.mark.parametrize(
    ("proof", "code", "said"),
    [
        (judged(), OK, "ok: nothing was lost"),
        (judged(duplicate=2, torn=1), FOUND, "NOT OK: duplicate, torn"),
        (judged(faults={"kill-driver": 1, "pause": 0}), UNPROVED, "pause was allowed and did not"),
        (judged(faults={}), UNPROVED, "no fault came"),
        (judged(rows_out=0), UNPROVED, "no row was read back"),
        (judged(left_open=None), UNPROVED, "transactions left open: not checked"),
        # What was found was found, whatever else did not come.
        (judged(lost=1, faults={"pause": 0}), FOUND, "NOT OK: lost"),
    ],
)
def test_what_was_not_seen_is_never_success(proof, code, said):
    """Only a clean verdict under every allowed fault is 0."""
    assert code_of(proof) == code
    assert said in said_of(proof)
    assert proof.ok == (code == OK)
