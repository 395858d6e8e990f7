"""The folder of a decision log on a local disk: each file once, whole, and for its owner."""

import os
import signal
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from twophase.errors import StoreUnavailable
from twophase.log.local_folder import LocalFolder

KILLED = """
import os, signal, sys
from pathlib import Path
from twophase.log.local_folder import LocalFolder

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

folder = LocalFolder(Path(sys.argv[1]), "there")
{dies} = die
folder.create("x", b"whole")
"""


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


def killed(place, dies):
    """Kill -9 a process inside `create`, where it calls what `dies` names; return its draft."""
    done = subprocess.run([sys.executable, "-c", KILLED.format(dies=dies), str(place)], check=False)
    assert done.returncode == -signal.SIGKILL
    (draft,) = place.glob(".x.*.tmp")
    assert draft.read_bytes() == b"whole"
    return draft


def grow_old(draft):
    """Let two days pass."""
    then_s = time.time() - 2 * 86_400
    os.utime(draft, (then_s, then_s))


def next_start(place):
    """A folder as the next driver has it, which has created a file."""
    found = LocalFolder(place, "there")
    found.create("epoch", b"next")
    return found


@pytest.mark.parametrize(
    ("dies", "there"), [("folder._sync", None), ("Path.unlink", b"whole")], ids=["draft", "linked"]
)
def test_killed_while_it_creates(tmp_path, dies, there):
    """The file is there whole or not at all, and of the draft nothing stays."""
    draft = killed(tmp_path, dies)
    young = next_start(tmp_path)
    assert draft.exists(), "it may be one of a driver that lives"
    grow_old(draft)
    folder = next_start(tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["epoch", *["x"] * bool(there)]
    assert folder.read("x") == young.read("x") == there
    assert folder.create("x", b"another") is (there is None)
    assert folder.read("x") == (there or b"another")


def test_a_driver_whose_draft_is_gone_has_created_nothing(tmp_path):
    """It was frozen for days, another has started, and it wakes up: it stops, and says why."""

    class Frozen(LocalFolder):
        def _sync(self, _descriptor):
            (draft,) = tmp_path.glob(".x.*.tmp")
            grow_old(draft)
            next_start(tmp_path)

    with pytest.raises(StoreUnavailable, match="the draft of x in there was deleted before it got"):
        Frozen(tmp_path, "there").create("x", b"whole")
    assert [each.name for each in tmp_path.iterdir()] == ["epoch"]


def test_starts_do_not_harm_each_other(tmp_path):
    """Eight at once, each of which looks for old drafts: one succeeds, and nobody fails."""

    def start(name, number):
        return LocalFolder(tmp_path, "there").create(name, bytes([number]))

    with ThreadPoolExecutor(8) as pool:
        for turn in range(20):
            names = [f"slot-{turn}"] * 8
            assert list(pool.map(start, names, range(8))).count(True) == 1
    assert len(list(tmp_path.iterdir())) == 20
