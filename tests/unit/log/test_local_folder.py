"""The folder of a decision log on a local disk: each file once, whole, and for its owner."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from twophase.log.local_folder import LocalFolder


@pytest.fixture
def folder(tmp_path):
    return LocalFolder(tmp_path / "a" / "log", "file:///a/log")


def test_one_of_many_creates_a_file(folder):
    """Of eight that create one name, each time one succeeds, and its bytes are there."""
    with ThreadPoolExecutor(8) as pool:
        for turn in range(20):
            name = f"slot-{turn}"
            datas = [bytes([number]) * 1_000 for number in range(8)]
            won = list(pool.map(lambda data, name=name: folder.create(name, data), datas))
            assert won.count(True) == 1
            assert folder.read(name) == datas[won.index(True)]


def test_what_is_there(folder, tmp_path):
    """Names without drafts and checksums, bytes, nothing where nothing is; deleted with its sum."""
    assert folder.names() == []
    assert folder.read("x") is None
    assert folder.create("x", b"1")
    place = tmp_path / "a" / "log"
    (place / ".x.crc").write_bytes(b"Hadoop's")
    (place / ".y.0.tmp").write_bytes(b"half of")
    assert folder.names() == ["x"]
    assert stat.S_IMODE((place / "x").stat().st_mode) == 0o600
    folder.delete("x")
    folder.delete("x")
    assert [each.name for each in place.iterdir()] == [".y.0.tmp"]


def test_a_disk_without_links(folder, tmp_path, monkeypatch):
    """Is known before anything is written there, and nothing is left of the look."""
    assert folder.can_link()

    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    assert not folder.can_link()
    assert list((tmp_path / "a" / "log").iterdir()) == []
