"""Nothing that is read from a file, a broker or an option is executed."""

import ast
from pathlib import Path

import pytest

import twophase
from twophase.errors import ConfigurationError
from twophase.kafka.code_options import CODE, refuse_code
from twophase.kafka.options import KafkaOptions

SOURCE = Path(twophase.__file__).parent
# What makes objects of bytes, or code of text. The contract's own round trip in memory is no file.
LOADERS = {"pickle", "cloudpickle", "dill", "marshal", "shelve", "jsonpickle", "joblib"}
ROUND_TRIP = "testing/contract.py"
SERVERS = {"kafka.bootstrap.servers": "broker:9092"}
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
LOGIN = 'required username="u" password="hunter2";'


def hits(tree):
    """Return what in a module could run code that came as data."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name.split(".")[0] in LOADERS]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in LOADERS:
            found.append(node.module)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found += [node.func.id] * (node.func.id in {"eval", "exec", "compile"})
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            # Only loaders that make plain data of YAML.
            unsafe = {"load", "load_all", "unsafe_load", "full_load", "Loader", "UnsafeLoader"}
            found += [f"yaml.{node.attr}"] * (node.value.id == "yaml" and node.attr in unsafe)
            found += ["shell"] * (node.value.id == "os" and node.attr in {"system", "popen"})
    return found


def test_no_source_loads_pickles_or_runs_text():
    """A checkpoint, a marker, a decision log and a pipeline are data: JSON, or YAML's safe part."""
    found = {
        str(path.relative_to(SOURCE)): hits(ast.parse(path.read_text()))
        for path in SOURCE.rglob("*.py")
    }
    assert {name: each for name, each in found.items() if each} == {ROUND_TRIP: ["pickle"]}


@pytest.mark.parametrize(
    "text",
    ["import pickle", "from cloudpickle import load", "eval(x)", "yaml.load(x)", "os.system(x)"],
)
def test_the_search_finds_what_is_there(text):
    """So that an empty hand says something."""
    assert hits(ast.parse(text))


def test_the_round_trip_reads_no_file():
    """The one place with a pickle makes it itself."""
    text = (SOURCE / ROUND_TRIP).read_text()
    assert text.count("pickle.") == 2
    assert "pickle.loads(pickle.dumps(" in text


@pytest.mark.parametrize("name", [*CODE, "config.providers.vault.class"])
def test_options_that_load_code_are_refused(name):
    """For the sink and for Spark's source, in one sentence without the value."""
    option = {f"kafka.{name}": "hunter2"}
    for refuse in (lambda: KafkaOptions.parse(SERVERS | option), lambda: refuse_code(option)):
        with pytest.raises(ConfigurationError, match=r"cannot be set: .*; leave it out") as caught:
            refuse()
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "module",
    [
        "com.sun.security.auth.module.JndiLoginModule",
        "com.sun.security.auth.module.LdapLoginModule",
        "evil.ScramLoginModule",
    ],
)
def test_login_modules_of_others_are_refused(module):
    """Java's own JndiLoginModule loads code from an address; a name alone proves nothing."""
    with pytest.raises(ConfigurationError, match="login module that is not one of Kafka's"):
        refuse_code({"kafka.sasl.jaas.config": f"{module} {LOGIN}"})


def test_login_modules_of_kafka_are_taken():
    """Whatever else is said to Spark's source is not this table's business."""
    refuse_code(SERVERS | {"kafka.sasl.jaas.config": f"{MODULE} {LOGIN}", "subscribe": "a"})
    with pytest.raises(ConfigurationError, match="cannot be read") as caught:
        refuse_code({"KAFKA.SASL.JAAS.CONFIG": "hunter2"})
    assert "hunter2" not in str(caught.value)
