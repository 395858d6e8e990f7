"""Finding Java."""

import pytest

from twophase.embedded.java import find_java
from twophase.errors import SetupError


@pytest.fixture
def java(tmp_path, monkeypatch):
    """Install scripts that answer as Java would, and let nothing else be found."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))

    def install(place, version, code=0):
        folder = tmp_path / place
        folder.mkdir(parents=True)
        script = folder / "java"
        script.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\nexit {code}\n")
        script.chmod(0o755)
        return script

    return install


@pytest.mark.parametrize("version", ["17.0.15", "17", "21-ea", "25.0.1"])
def test_new_enough(java, version):
    """17 and everything newer is taken."""
    script = java("path", version)
    assert find_java() == script


@pytest.mark.parametrize(("version", "major"), [("1.8.0_392", 8), ("11.0.2", 11), ("16", 16)])
def test_too_old(java, version, major):
    """An older one is named with its version, together with what to do."""
    script = java("path", version)
    with pytest.raises(SetupError, match=rf"{script} is Java {major}; install OpenJDK 17"):
        find_java()


def test_missing(java):
    """Without any Java the error says where it was looked for."""
    assert java
    with pytest.raises(SetupError, match=r"none was found in .JAVA_HOME or on PATH"):
        find_java()


def test_broken(java):
    """A java that fails is no Java."""
    java("path", "17", code=1)
    with pytest.raises(SetupError, match="no Java that answers"):
        find_java()


def test_java_home_first(java, monkeypatch, tmp_path):
    """JAVA_HOME is taken before PATH."""
    java("path", "21")
    chosen = java("home/bin", "17")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == chosen


def test_java_home_too_old(java, monkeypatch, tmp_path):
    """PATH helps out where JAVA_HOME is too old."""
    chosen = java("path", "21")
    java("home/bin", "11")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == chosen
