"""Which module may import what, and what a user may rely on."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import twophase

SOURCE = Path(twophase.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
PRIVATE = ("kafka.net.manager", "kafka.net.selector", "kafka.net.transport", "kafka.net.inet")


def imported(path):
    """Every module that a file imports, wherever in the file."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return names


def importers(*prefixes):
    """The files, relative to the package, that import any of these."""
    return {
        str(path.relative_to(SOURCE))
        for path in MODULES
        if any(name == p or name.startswith(f"{p}.") for name in imported(path) for p in prefixes)
    }


def test_the_public_names():
    """What `import twophase` promises."""
    assert twophase.__all__ == [
        "CommittableLost",
        "KafkaSink",
        "PostgresSink",
        "TaskSink",
        "TwoPhaseCommitSink",
        "configure_spark",
        "fan_out",
    ]
    assert all(callable(getattr(twophase, name)) for name in twophase.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = twophase.nothing


def test_the_private_connection_interface_is_behind_one_door():
    """kafka-python's connections are wrapped by connections.py, which only wire.py uses."""
    assert importers(*PRIVATE) == {"kafka/connections.py", "kafka/wire.py"}
    assert importers("twophase.kafka.connections") == {"kafka/wire.py"}


def test_only_the_spark_folder_imports_pyspark():
    """A store knows nothing of Spark; the fetcher of jars only looks where pyspark lies."""
    assert {name.split("/")[0] for name in importers("pyspark")} == {"spark"}


def test_imports_point_inward():
    """Nothing below imports the command line, and Kafka's half knows nothing of the tools."""
    assert all(
        name.startswith("cli/") or name == "__main__.py" for name in importers("twophase.cli")
    )
    outside = importers("twophase.kafka", "twophase.spark", "twophase.sink", "kafka", "pyspark")
    assert not {name for name in outside if name.startswith("commit/")}
    assert not {
        name
        for name in importers("twophase.embedded", "twophase.verify", "twophase.spark")
        if name.startswith("kafka/")
    }


def test_src_has_no_assert():
    """An invariant is a ProtocolViolation, which python -O does not remove."""
    for path in MODULES:
        tree = ast.parse(path.read_text())
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.Assert)], path


def test_modules_and_functions_stay_small():
    """A module has at most 400 lines, a function 70."""
    for path in MODULES:
        text = path.read_text()
        assert len(text.splitlines()) <= 400, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno - node.lineno < 70, f"{path}: {node.name}"


def test_importing_the_package_is_cheap():
    """An executor that imports the package pays for neither Spark, Arrow nor a Kafka client."""
    heavy = ("pyspark", "pyarrow", "kafka")
    code = f"import sys, twophase; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"
