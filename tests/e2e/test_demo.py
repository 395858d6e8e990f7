"""`twophase demo`: what it shows is what a broker and its readers did; nothing stays behind."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

DEMO = [sys.executable, "-m", "twophase", "demo"]


def descendants(pid):
    """Every process below this one, read from the system's own table."""
    children = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(entry.parent.name))
    found = list(children.get(pid, []))
    for child in found:
        found += children.get(child, [])
    return found


def test_both_readers_see_what_they_should():
    """read_committed sees a transaction at its commit, whole, and an aborted one never."""
    done = subprocess.run([*DEMO, "--output", "json"], capture_output=True, check=True, text=True)
    seen = [
        (row["moment"], row["read_committed"], row["read_uncommitted"])
        for row in json.loads(done.stdout)
    ]
    assert seen == [
        ("before", 0, 0),
        ("first transaction written, still open", 0, 1000),
        ("first transaction committed", 1000, 1000),
        ("second transaction written, still open", 1000, 2000),
        ("second transaction aborted", 1000, 2000),
    ]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
@pytest.mark.parametrize("after_s", [1.0, 2.5, 4.5])
def test_ctrl_c_leaves_nothing_running(after_s):
    """Interrupted at any moment: exit code 130, one word, no traceback, no process."""
    demo = subprocess.Popen(DEMO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with demo:
        time.sleep(after_s)
        started = descendants(demo.pid)
        demo.send_signal(signal.SIGINT)
        _, told = demo.communicate(timeout=30)
    assert demo.returncode in {130, -signal.SIGINT}
    assert "Traceback" not in told
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in started):
        assert time.monotonic() < deadline, "something is left running"
        time.sleep(0.1)
