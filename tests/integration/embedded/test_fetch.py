"""Fetching jars by a real Ivy."""

import shutil
import socket
import subprocess
import sys

import pytest

from twophase.embedded import EmbeddedKafka, cluster, fetch_jars, ivy, jarset
from twophase.errors import SetupError

TINY_SET = "spark-kafka-4.2.0"
FETCH = "import sys; from twophase.embedded import fetch_jars; print(*fetch_jars(sys.argv[1]))"


def test_two_processes_at_once(empty_home, repository, use_mirror):
    """Two processes that fetch at once get the same whole set, and it is downloaded once."""
    use_mirror(repository)
    command = [sys.executable, "-c", FETCH, TINY_SET]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(command, **pipes) for _ in range(2)]
    answers = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], answers
    assert answers[0][0] == answers[1][0]
    assert sorted("fetching jars of" in err for _, err in answers) == [False, True]
    folder = empty_home / "jars" / TINY_SET
    assert not jarset.load(TINY_SET).missing_from(folder).jars
    assert {path.name for path in (empty_home / "jars").iterdir()} == {TINY_SET, f"{TINY_SET}.lock"}


def test_the_users_ivy_folder_is_left_alone(
    empty_home, tmp_path, monkeypatch, repository, use_mirror
):
    """A company's mirror is used as its settings file says, and ~/.ivy2 is not touched."""
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Duser.home={tmp_path / 'user'}")
    use_mirror(repository)
    assert all(path.is_relative_to(empty_home) for path in fetch_jars(TINY_SET))
    assert not (tmp_path / "user").exists()


def test_corrupt_jar_is_fetched_again(empty_home, repository, use_mirror, capfd):
    """A jar that was changed on disk is found and only this one is fetched."""
    use_mirror(repository)
    first, *_ = fetch_jars(TINY_SET)
    capfd.readouterr()
    good = first.read_bytes()
    first.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    fetch_jars(TINY_SET)
    assert first.read_bytes() == good
    assert "fetching jars of spark-kafka-4.2.0 (1)" in capfd.readouterr().err
    assert empty_home.exists()


def test_offline_afterwards(empty_home, repository, use_mirror, tmp_path, monkeypatch):
    """Once fetched, neither network nor Java nor Ivy is needed for the jars."""
    use_mirror(repository)
    paths = fetch_jars(TINY_SET)
    monkeypatch.setenv("TWOPHASE_IVY_SETTINGS", str(tmp_path / "gone.xml"))
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert fetch_jars(TINY_SET) == paths
    assert empty_home.exists()


def test_wrong_content_is_refused(empty_home, repository, use_mirror, tmp_path):
    """A repository that serves another file under the same name is refused, nothing is kept."""
    false = tmp_path / "false"
    shutil.copytree(repository, false)
    next(false.rglob("commons-pool2-*.jar")).write_bytes(b"not what was committed")
    use_mirror(false)
    with pytest.raises(SetupError, match=r"brought commons-pool2-2.13.1.jar with a SHA-256 sum"):
        fetch_jars(TINY_SET)
    assert not list((empty_home / "jars" / TINY_SET).iterdir())


@pytest.mark.usefixtures("empty_home", "unreachable")
def test_no_network():
    """Without a network one sentence names the jars, the reason and what to do."""
    with pytest.raises(SetupError) as caught:
        EmbeddedKafka().start()
    said = str(caught.value)
    assert "jars of kafka-4.3.1 could not be downloaded" in said
    assert "Connection refused" in said
    assert "TWOPHASE_IVY_SETTINGS" in said
    assert "\n" not in said


@pytest.mark.usefixtures("empty_home")
def test_silent_server(monkeypatch, tmp_path):
    """A server that takes the connection and never answers is given up in bounded time."""
    monkeypatch.setattr(ivy, "_SILENCE_LIMIT_S", 3.0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        settings = tmp_path / "ivysettings.xml"
        root = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        settings.write_text(
            '<ivysettings><settings defaultResolver="m"/><resolvers>'
            f'<ibiblio name="m" m2compatible="true" root="{root}"/></resolvers></ivysettings>'
        )
        monkeypatch.setenv("TWOPHASE_IVY_SETTINGS", str(settings))
        with pytest.raises(SetupError, match="no answer"):
            fetch_jars(TINY_SET)


@pytest.mark.usefixtures("empty_home")
def test_settings_file_missing(monkeypatch, tmp_path):
    """A settings file that is not there is named."""
    monkeypatch.setenv("TWOPHASE_IVY_SETTINGS", str(tmp_path / "gone.xml"))
    with pytest.raises(SetupError, match=r"gone\.xml, which is no file"):
        fetch_jars(TINY_SET)


def test_disk_full_while_fetching(tiny_disk, monkeypatch, repository, use_mirror):
    """A disk that is full in mid download is named with its free bytes; nothing half is kept."""
    use_mirror(repository)
    monkeypatch.setenv("TWOPHASE_HOME", str(tiny_disk))
    with pytest.raises(SetupError, match=rf"{tiny_disk}\S* is full \(\d+ bytes are free\)"):
        fetch_jars(TINY_SET)
    assert not list((tiny_disk / "jars" / TINY_SET).iterdir())


def test_disk_full_while_starting(tiny_disk):
    """A broker is not started on a disk that it would soon fill."""
    with pytest.raises(SetupError, match=rf"{tiny_disk}/kafka is full \(\d+ bytes are free\)"):
        EmbeddedKafka(directory=tiny_disk / "kafka").start()


@pytest.mark.parametrize("left_bytes", [0, 16 * 1024, 32 * 1024])
def test_disk_full_later(tiny_disk, left_bytes, monkeypatch):
    """A disk that is full only at our own, the format's or the broker's write: the same words."""
    monkeypatch.setattr(cluster, "_NEEDED_BYTES", 0)
    with (tiny_disk / "ballast").open("wb") as file:
        file.write(bytes(2 * 1024 * 1024 - left_bytes))
    with pytest.raises(SetupError, match=r"is full \(\d+ bytes are free\)"):
        EmbeddedKafka(directory=tiny_disk / "kafka").start()
