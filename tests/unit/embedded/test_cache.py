"""The cache folder."""

import errno
import threading

import pytest

from twophase.embedded.cache import disk_errors, home, locked, write_atomically
from twophase.errors import SetupError


def test_the_users_choice_comes_first(monkeypatch, tmp_path):
    """TWOPHASE_HOME wins over XDG_CACHE_HOME, and that over ~/.cache."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("TWOPHASE_HOME", raising=False)
    assert home() == tmp_path / "home" / ".cache" / "twophase"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert home() == tmp_path / "caches" / "twophase"
    monkeypatch.setenv("TWOPHASE_HOME", str(tmp_path / "chosen"))
    assert home() == tmp_path / "chosen"


def test_full_disk_names_folder_and_free_bytes(tmp_path):
    """ENOSPC becomes one sentence with the folder, the free bytes and what to do."""
    folder = tmp_path / "not" / "yet"
    with pytest.raises(SetupError, match=rf"holds {folder} is full \(\d+ bytes .*TWOPHASE_HOME"):
        _fail(folder, OSError(errno.ENOSPC, "No space left on device"))


def test_read_only_folder_is_named(tmp_path):
    """A folder that may not be written becomes one sentence, too."""
    with pytest.raises(SetupError, match=r"/x may not be written \(Permission denied\)"):
        _fail(tmp_path, PermissionError(errno.EACCES, "Permission denied", "/x"))


def test_other_errors_pass(tmp_path):
    """An OSError that means something else is not renamed."""
    with pytest.raises(IsADirectoryError):
        _fail(tmp_path, IsADirectoryError(errno.EISDIR, "Is a directory"))


def test_one_holder_at_a_time(tmp_path, capsys):
    """A second holder waits in bounded time, then says who it waits for."""
    lock = tmp_path / "lock"
    with locked(lock, timeout_s=1, purpose="testing"):
        with (
            pytest.raises(SetupError, match="busy testing"),
            locked(lock, timeout_s=0.2, purpose="testing"),
        ):
            pass
        got = threading.Event()

        def wait() -> None:
            with locked(lock, timeout_s=10, purpose="testing"):
                got.set()

        waiter = threading.Thread(target=wait)
        waiter.start()
        assert not got.wait(0.3)
    waiter.join(10)
    assert got.is_set()
    assert "waiting for another process, busy testing ..." in capsys.readouterr().err


def test_a_write_replaces_the_whole_file(tmp_path):
    """The new text stands alone, and nothing else is left in the folder."""
    path = tmp_path / "folder" / "state.json"
    write_atomically(path, "a longer first text")
    write_atomically(path, "second")
    assert path.read_text() == "second"
    assert list(path.parent.iterdir()) == [path]


def _fail(folder, error):
    with disk_errors(folder):
        raise error
