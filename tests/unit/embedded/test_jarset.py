"""The committed jar lists."""

import hashlib
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import twophase.embedded
from twophase.embedded import jarset
from twophase.embedded.jarset import JarSet
from twophase.errors import ProtocolViolation

SUM = "0" * 64
LISTS = Path(twophase.embedded.__file__).parent / "jars"


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("kafka-4.3.1", "kafka_2.13-4.3.1.jar"),
        ("kafka-3.9.2", "kafka_2.13-3.9.2.jar"),
        ("spark-kafka-4.0.3", "spark-sql-kafka-0-10_2.13-4.0.3.jar"),
        ("spark-kafka-4.1.2", "spark-sql-kafka-0-10_2.13-4.1.2.jar"),
        ("spark-kafka-4.2.0", "spark-sql-kafka-0-10_2.13-4.2.0.jar"),
    ],
)
def test_committed_lists_are_whole(name, key):
    """Every list parses, is sorted for a readable diff, and holds the jar it is for."""
    names = [jar.file_name for jar in jarset.load(name).jars]
    assert key in names
    lines = (LISTS / f"{name}.txt").read_text().splitlines()
    assert lines == sorted(set(lines))


def test_lists_name_no_server():
    """Where jars come from is Ivy's or the user's business."""
    assert not any("//" in path.read_text() for path in LISTS.iterdir())


@pytest.mark.parametrize("line", ["a:b:1", f"a:b {SUM}", f"a:b:1 {SUM[1:]}", f"a:b:../1 {SUM}"])
def test_a_line_that_is_no_jar_is_refused(line):
    """A damaged list is found when it is read."""
    with pytest.raises(ProtocolViolation):
        JarSet.parse("x", line)


def test_two_jars_of_one_name_are_refused():
    """Files of one name would overwrite each other."""
    with pytest.raises(ProtocolViolation, match="same file name"):
        JarSet.parse("x", f"a:b:1 {SUM}\nc:b:1 {SUM}")


def test_ivy_is_asked_for_exactly_the_list():
    """Each jar is a direct dependency that brings no other; a classifier is kept."""
    text = f"a.b:c:1 {SUM}\nd:e:2:linux-x86_64 {SUM}"
    module = ET.fromstring(JarSet.parse("x", text).ivy_module())
    first, second = module.findall("./dependencies/dependency")
    assert (first.get("org"), first.get("name"), first.get("rev")) == ("a.b", "c", "1")
    assert first.get("transitive") == second.get("transitive") == "false"
    artifact = second.find("artifact")
    assert artifact.get("{http://ant.apache.org/ivy/maven}classifier") == "linux-x86_64"


def test_missing_and_changed_files_are_found(tmp_path):
    """A file is taken only if it has exactly the committed content."""
    content = hashlib.sha256(b"good").hexdigest()
    jars = JarSet.parse("x", f"a:whole:1 {content}\na:changed:1 {content}\na:missing:1 {content}")
    (tmp_path / "whole-1.jar").write_bytes(b"good")
    (tmp_path / "changed-1.jar").write_bytes(b"goof")
    found = [jar.artifact for jar in jars.missing_from(tmp_path).jars]
    assert found == ["changed", "missing"]
