"""What the tests of fetching and of full disks have in common."""

import functools
import http.server
import shutil
import subprocess
import threading
from contextlib import contextmanager

import pytest

from twophase.embedded import fetch_jars, jarset

TINY_SET = "spark-kafka-4.2.0"
SETTINGS = """\
<ivysettings>
  <settings defaultResolver="mirror"/>
  <property name="ivy.checksums" value=""/>
  <resolvers><ibiblio name="mirror" m2compatible="true" usepoms="false" root="{root}"/></resolvers>
</ivysettings>
"""


class _QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="session")
def repository(tmp_path_factory):
    """Lay out the smallest jar set as a company's mirror would, for reading only."""
    root = tmp_path_factory.mktemp("mirror")
    paths = {path.name: path for path in fetch_jars(TINY_SET)}
    for jar in jarset.load(TINY_SET).jars:
        folder = root.joinpath(*jar.group.split("."), jar.artifact, jar.version)
        folder.mkdir(parents=True)
        shutil.copy(paths[jar.file_name], folder)
    return root


@pytest.fixture
def empty_home(tmp_path, monkeypatch):
    """Give the test a cache folder with nothing in it."""
    monkeypatch.setenv("TWOPHASE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def use_mirror(tmp_path, monkeypatch):
    """Point Ivy to a folder served over HTTP on loopback, by the user's own settings file."""
    with _served() as server:

        def use(root):
            server.RequestHandlerClass = functools.partial(_QuietHandler, directory=str(root))
            point_ivy_to(f"http://127.0.0.1:{server.server_port}/", tmp_path, monkeypatch)

        yield use


def point_ivy_to(root, tmp_path, monkeypatch):
    """Write a settings file that names this root alone."""
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(SETTINGS.format(root=root))
    monkeypatch.setenv("TWOPHASE_IVY_SETTINGS", str(settings))


@pytest.fixture
def unreachable(tmp_path, monkeypatch):
    """Point Ivy to a place on loopback where nobody listens: a machine without a network."""
    point_ivy_to("http://127.0.0.1:1/", tmp_path, monkeypatch)


@pytest.fixture
def tiny_disk(tmp_path):
    """Mount a disk of 2 MB, which is soon full."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, check=False).returncode != 0:
        pytest.skip("only root may mount a small disk here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def _served():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _QuietHandler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()
