"""The PostgreSQL of the tests: whose it is, under any user, and gone with who started it."""

import os
import platform
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from support.postgres import server_url
from support.waiting import wait_until

from twophase.embedded import postgres
from twophase.embedded.postgres import FETCHED, EmbeddedPostgres
from twophase.embedded.process import ProcessIdentity
from twophase.errors import SetupError

LINUX = pytest.mark.skipif(not Path("/proc/self/exe").exists(), reason="looks into /proc")
FETCHABLE = pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"),
    reason="a server can be fetched for Linux on x86-64 only",
)
ROOT = os.geteuid() == 0
PATHS = [path for path in sys.path if path]
PARENT = """
import sys
from twophase.embedded.postgres import EmbeddedPostgres
with EmbeddedPostgres() as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


def ask(url, query):
    """Return the one value that a query has."""
    with psycopg.connect(url) as connection:
        return connection.execute(query).fetchone()[0]


def program_of(url):
    """Return the file that the server's processes run."""
    with psycopg.connect(url) as connection:
        pid = connection.info.backend_pid
        return Path(f"/proc/{pid}/exe").resolve()


@pytest.fixture
def temporary(monkeypatch):
    """Give servers a folder of the test's own to make theirs in, which everybody may enter."""
    with tempfile.TemporaryDirectory(prefix="twophase-test-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield folder


@pytest.fixture
def none_found(monkeypatch):
    """Hide the servers of this machine."""
    monkeypatch.setenv("PATH", str(Path(shutil.which("java")).parent))
    monkeypatch.setattr(postgres, "_PLACES", ())
    if shutil.which("postgres"):
        pytest.skip("Java and PostgreSQL lie in one folder here")


def test_the_user_s_own_server_comes_first(temporary, monkeypatch):
    """Its address is taken as it is, and nothing is started."""
    given = "postgresql://me@db/tests?application_name=x"
    monkeypatch.setenv("TWOPHASE_POSTGRES_URL", given)
    with server_url() as url:
        assert url == given
        assert list(temporary.iterdir()) == []


@FETCHABLE
def test_then_one_on_the_machine_then_one_that_is_fetched(monkeypatch, none_found):  # noqa: ARG001
    """The one on the PATH, else the newest where packages put it, else the fetched one."""
    monkeypatch.delenv("TWOPHASE_POSTGRES_URL", raising=False)
    with server_url() as url:
        fetched = program_of(url)
        assert f"postgres-{ask(url, 'SHOW server_version')}" == FETCHED
        assert "twophase-postgres-" in str(fetched)
        monkeypatch.setattr(postgres, "_PLACES", (str(fetched.parents[2] / "*/bin"),))
        with server_url() as placed:
            assert program_of(placed) == fetched
        monkeypatch.setattr(postgres, "_PLACES", ())
        monkeypatch.setenv("PATH", f"{fetched.parent}:{os.environ['PATH']}")
        with server_url() as on_path:
            assert program_of(on_path) == fetched


@FETCHABLE
def test_the_same_server_on_every_machine(temporary):
    """Who asks for the fetched one gets it, whatever is on the machine."""
    with EmbeddedPostgres(fetched=True) as server:
        assert temporary in program_of(server.url).parents
        assert f"postgres-{ask(server.url, 'SHOW server_version')}" == FETCHED


@FETCHABLE
@pytest.mark.usefixtures("none_found", "empty_home", "unreachable")
def test_none_can_be_had(temporary):
    """That is one sentence with what to do, and nothing is left behind."""
    told = "no PostgreSQL server can be had: .*; or install PostgreSQL 13 or newer, or set TWO"
    with pytest.raises(SetupError, match=told), EmbeddedPostgres():
        pass
    assert list(temporary.iterdir()) == []


@pytest.mark.usefixtures("none_found")
def test_none_can_be_had_for_this_machine(temporary, monkeypatch):
    """Where there is none to fetch, the same."""
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(SetupError, match="no PostgreSQL server is on this machine, and one can"):
        EmbeddedPostgres().__enter__()
    assert list(temporary.iterdir()) == []


@LINUX
def test_a_process_of_it_that_outlives_a_kill():
    """It is waited for: another server is not let at the data before."""
    with EmbeddedPostgres() as server, psycopg.connect(server.url) as connection:
        late = ProcessIdentity.of(connection.info.backend_pid)
        late.send(signal.SIGSTOP)
        wait_until(lambda: late.paused)
        server.kill()
        waking = threading.Timer(2, late.send, [signal.SIGCONT])
        waking.start()
        try:
            server.start()
        finally:
            late.send(signal.SIGCONT)
            waking.cancel()
        assert not late.alive
        assert ask(server.url, "SELECT 1") == 1


@LINUX
def test_the_server_s_user(temporary):
    """Is this process's own, but never root, which PostgreSQL refuses."""
    with EmbeddedPostgres() as server, psycopg.connect(server.url) as connection:
        owner = Path(f"/proc/{connection.info.backend_pid}").stat().st_uid
        assert owner == os.geteuid() or (ROOT and owner != 0)
    assert list(temporary.iterdir()) == []


def python_for(user):
    """Return a Python with which this user can run the package, with its environment."""
    environment = {"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(PATHS)}
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            command = [python, "-c", "import twophase.embedded.postgres"]
            subprocess.run(
                command, env=environment, check=True, timeout=60, capture_output=True, **user
            )
        except (OSError, subprocess.CalledProcessError):
            continue
        return python, environment
    pytest.skip("the user nobody can run no Python that has this package's own on this machine")
    return None


@contextmanager
def parent_of_a_server(user, temporary):
    """Start a process with a server, as this user; yield it and the server's address."""
    python, environment = (sys.executable, dict(os.environ))
    if user:
        if not ROOT:
            pytest.skip("only root may start a process of another user")
        if not shutil.which("postgres") and not any(Path("/usr/lib/postgresql").glob("*/bin")):
            pytest.skip("no PostgreSQL is on this machine, and nobody has no home to fetch one to")
        entry = pwd.getpwnam(user)
        user = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        python, environment = python_for(user)
    with subprocess.Popen(
        [python, "-c", PARENT],
        env=environment | {"TMPDIR": str(temporary)},
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **(user or {}),
    ) as parent:
        try:
            url = parent.stdout.readline().strip()
            assert url.startswith("postgresql://"), parent.communicate(timeout=60)
            yield parent, url
        finally:
            parent.kill()


@LINUX
@pytest.mark.parametrize("user", [None, "nobody"])
def test_gone_with_its_parent(temporary, user):
    """When the parent is killed with -9, all processes of the server and its folder go."""
    with parent_of_a_server(user, temporary) as (parent, url):
        # Some come only after the server has said that it is ready; those of a vacuum go again.
        query = (
            "SELECT coalesce(array_agg(pid), '{}') FROM pg_stat_activity"
            " WHERE backend_type NOT IN ('client backend', 'autovacuum worker')"
        )
        wait_until(lambda: len(ask(url, query)) > 2)
        (folder,) = temporary.iterdir()
        first = int((folder / "server/data/postmaster.pid").read_text().splitlines()[0])
        servers = [ProcessIdentity.of(pid) for pid in [first, *ask(url, query)]]
        assert all(each.alive for each in servers)
        if user:
            assert Path(f"/proc/{first}").stat().st_uid == pwd.getpwnam(user).pw_uid
        parent.kill()
        assert all(each.wait(20) for each in servers)
        wait_until(lambda: not folder.exists(), 20)
    # Of the folder around it nothing was asked.
    assert temporary.exists()
