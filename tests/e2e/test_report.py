"""The demo's report in a real browser: whole, without a network, and something to look at."""

import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,2400",
    # Nothing may come from elsewhere: every name but none is unknown.
    "--host-resolver-rules=MAP * ~NOTFOUND",
)


@pytest.fixture(scope="module")
def browser():
    """A Chromium; installed by Debian's packages where it is missing."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None and shutil.which("apt-get"):
        subprocess.run(["apt-get", "update", "-qq"], check=True, timeout=300)
        subprocess.run(["apt-get", "install", "-y", "-qq", "chromium"], check=True, timeout=600)
        found = shutil.which("chromium")
    assert found, "no Chromium on this machine, and no apt-get to install one"
    return found


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The report of a real demo."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    demo = [sys.executable, "-m", "twophase", "demo", "--rows", "60000", "--kills", "2"]
    subprocess.run([*demo, "--report", str(path)], check=True, capture_output=True, timeout=400)
    return path


def opened(browser, report, folder, *more):
    """Open the report in a fresh browser and return what it printed."""
    done = subprocess.run(
        [browser, *QUIET, f"--user-data-dir={folder}", *more, report.as_uri()],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout, done.stderr


def distinct_lines(picture):
    """Return how many different lines of pixels a PNG has: one or two where it is empty."""
    content = picture.read_bytes()
    width = struct.unpack(">I", content[16:20])[0]
    at, data = 8, b""
    while at < len(content):
        size, kind = struct.unpack(">I4s", content[at : at + 8])
        if kind == b"IDAT":
            data += content[at + 8 : at + 8 + size]
        at += size + 12
    pixels = zlib.decompress(data)
    channels = {2: 3, 6: 4}[content[25]]
    step = 1 + width * channels
    return len({pixels[line : line + step] for line in range(0, len(pixels), step)})


def test_the_report_in_a_browser(browser, report, tmp_path):
    """The browser has the table and all six plots, and no error to tell."""
    dom, said = opened(
        browser, report, tmp_path / "a", "--dump-dom", "--enable-logging=stderr", "--v=0"
    )
    assert dom.count("<svg") == 6
    assert "duplicate rows" in dom
    assert "CONSOLE" not in said


def test_the_report_is_something_to_look_at(browser, report, tmp_path):
    """In light and in dark, and not the same picture."""
    pictures = []
    for name, scheme in (("light", "1"), ("dark", "0")):
        picture = Path(tmp_path, f"{name}.png")
        setting = f"--blink-settings=preferredColorScheme={scheme}"
        opened(browser, report, tmp_path / name, setting, f"--screenshot={picture}")
        assert distinct_lines(picture) > 300
        pictures.append(picture.read_bytes())
    assert pictures[0] != pictures[1]
