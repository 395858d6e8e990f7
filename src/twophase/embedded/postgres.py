"""A real PostgreSQL for development and tests: one server, on loopback, gone with this process.

The server is the one on the PATH, else the newest one where packages of this machine put theirs,
else one that is fetched once (Linux on x86-64).
"""

import os
import platform
import pwd
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Final, Self

from twophase.embedded.fetch import fetch_jars
from twophase.embedded.launch import Launched, launch
from twophase.embedded.ports import free_ports
from twophase.embedded.settings import HOST
from twophase.errors import SetupError

FETCHED: Final = "postgres-17.5"
USER: Final = "twophase"
_PLACES: Final = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql*/bin",
)
_OTHERWISE: Final = "install PostgreSQL 13 or newer, or set TWOPHASE_POSTGRES_URL for the tests"
_START_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.05
# What the server says last where processes of another one still have the memory of its data.
_OLD_ONES: Final = "Terminate any old server processes"
_SETTINGS: Final = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_prepared_transactions": "100",
    "shared_buffers": "32MB",
    # What kill -9 can take away is not what this protects from, but a disk that is slow to sync is.
    "synchronous_commit": "on",
    "fsync": "off",
}
# The server refuses to run as root. Changing the user wipes out the order to die with the guardian.
_AS_USER: Final = """\
import ctypes, os, signal, sys
user, group, *command = sys.argv[1:]
os.setgroups([])
os.setgid(int(group))
os.setuid(int(user))
if sys.platform.startswith("linux"):
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
os.execv(command[0], command)
"""


class EmbeddedPostgres:
    """One server with an empty database; `with` starts and stops it, `kill` is kill -9.

    `fetched` asks for the same server on every machine. `settings` are the server's own, beside
    those of this module.
    """

    def __init__(self, *, fetched: bool = False, **settings: str) -> None:
        self._settings = _SETTINGS | settings
        self._found = None if fetched else _found()
        self._account = _account()
        self._port = free_ports(1)[0]
        self._launched: Launched | None = None
        self._root: Path | None = None
        self._bin = Path()

    @property
    def url(self) -> str:
        """How a client reaches it."""
        return f"postgresql://{USER}@{HOST}:{self._port}/postgres"

    def __enter__(self) -> Self:
        self._root = Path(tempfile.mkdtemp(prefix="twophase-postgres-"))
        try:
            self._initialise()
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the server, also after it was killed, and wait until it takes queries."""
        options = [
            part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")
        ]
        command = [str(self._bin / "postgres"), "-D", str(self._data), "-p", str(self._port)]
        command = self._as_user([*command, *options])
        self._launched = launch(command, self._console, self._folder)
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not _answers(self._port):
            alive, late = self._launched.jvm.alive, time.monotonic() > deadline
            if not alive and not late and _OLD_ONES in self._last_line():
                # Those of a server that was killed end by themselves, each as it gets to it.
                self._launched.guardian.wait(_START_TIMEOUT_S)
                self._launched = launch(command, self._console, self._folder)
            elif late or not alive:
                raise SetupError(
                    f"PostgreSQL did not start within {_START_TIMEOUT_S:.0f} s: {self._last_line()}"
                )
            time.sleep(_POLL_S)

    def kill(self) -> None:
        """Kill the server with -9; its other processes end by themselves."""
        if self._launched is None:
            return
        self._launched.jvm.send(signal.SIGKILL)
        self._launched.jvm.wait(_START_TIMEOUT_S)
        self._launched.guardian.wait(_START_TIMEOUT_S)
        self._launched = None

    def stop(self) -> None:
        """Stop the server and delete its data; idempotent."""
        if self._launched is not None:
            # A fast shutdown: clients are sent away.
            self._launched.jvm.send(signal.SIGINT)
            if not self._launched.jvm.wait(_START_TIMEOUT_S):
                self._launched.jvm.send(signal.SIGKILL)
            self._launched.guardian.wait(_START_TIMEOUT_S)
            self._launched = None
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)
            self._root = None

    @property
    def _folder(self) -> Path:
        """What the guardian deletes; then it deletes the folder around it, if that is empty."""
        if self._root is None:
            raise SetupError("this PostgreSQL has no folder outside of its with statement")
        return self._root / "server"

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    @property
    def _console(self) -> Path:
        return self._folder / "console.log"

    def _initialise(self) -> None:
        self._folder.mkdir()
        # Its own user goes through them; the data are closed to others all the same.
        for each in (self._folder.parent, self._folder):
            each.chmod(0o755)
        self._bin = self._found or self._fetched()
        if self._account is not None:
            os.chown(self._folder, *self._account)
        command = [str(self._bin / "initdb"), "-D", str(self._data), "-U", USER, "-A", "trust"]
        done = subprocess.run(
            self._as_user([*command, "-E", "UTF8", "--locale=C", "--no-sync"]),
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=_START_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise SetupError(f"initdb failed: {(done.stderr or done.stdout).strip()[-300:]}")

    def _as_user(self, command: list[str]) -> list[str]:
        if self._account is None:
            return command
        user, group = self._account
        return [sys.executable, "-I", "-c", _AS_USER, str(user), str(group), *command]

    def _fetched(self) -> Path:
        if sys.platform != "linux" or platform.machine() != "x86_64":
            raise SetupError(
                "no PostgreSQL server is on this machine, and one can be fetched for Linux on "
                f"x86-64 only; {_OTHERWISE}"
            )
        try:
            (jar,) = fetch_jars(FETCHED)
        except SetupError as error:
            raise SetupError(
                f"no PostgreSQL server can be had: {error.message}; or {_OTHERWISE}"
            ) from error
        # Unpacked where the server's own user can read it: a home folder often is closed to others.
        target = self._folder / "programs"
        with zipfile.ZipFile(jar) as archive:
            (name,) = (each for each in archive.namelist() if each.endswith(".txz"))
            with archive.open(name) as packed, tarfile.open(fileobj=packed, mode="r:xz") as files:
                files.extractall(target, filter="data")
        return target / "bin"

    def _last_line(self) -> str:
        lines = self._console.read_text(errors="replace").strip().splitlines()
        return lines[-1][-300:] if lines else "it said nothing"


def _found() -> Path | None:
    """Return the programs of the newest server on this machine, if there is one."""
    candidates = [Path(found).resolve().parent for found in [shutil.which("postgres")] if found]
    for place in _PLACES:
        root, _, pattern = place.lstrip("/").partition("/")
        candidates += sorted(Path("/", root).glob(pattern), reverse=True)
    for each in candidates:
        if (each / "postgres").is_file() and (each / "initdb").is_file():
            return each
    return None


def _account() -> tuple[int, int] | None:
    """Return the user to run the server as where this process is root's, which it refuses."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return entry.pw_uid, entry.pw_gid
    raise SetupError("PostgreSQL refuses to run as root, and there is no user postgres or nobody")


def _answers(port: int) -> bool:
    """Whether the server takes a session: asked by hand, since a client need not be installed."""
    content = struct.pack(">i", 196608) + b"user\0" + USER.encode() + b"\0database\0postgres\0\0"
    try:
        with socket.create_connection((HOST, port), timeout=5) as connection:
            connection.sendall(struct.pack(">i", len(content) + 4) + content)
            return connection.recv(1) == b"R"
    except OSError:
        return False
