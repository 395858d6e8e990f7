"""`twophase demo`: what it shows is what readers saw; nothing stays behind."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.waiting import wait_until

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


@pytest.mark.long
def test_the_demo(tmp_path):
    """Both sinks are killed: Spark's own doubles rows, twophase does not; the report says so."""
    report = tmp_path / "report.html"
    arguments = ["--rows", "60000", "--kills", "1", "--report", str(report), "--output", "json"]
    done = subprocess.run(
        [*DEMO, *arguments], capture_output=True, check=False, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    spark, ours = found["verdicts"]
    assert found["kills"] == {"Spark's own sink": 1, "twophase": 1}
    assert (ours["sink"], ours["rows_in"], ours["rows_out"]) == ("twophase", 60_000, 60_000)
    assert {finding["kind"]: finding["count"] for finding in ours["findings"]} == dict.fromkeys(
        (finding["kind"] for finding in spark["findings"]), 0
    )
    doubled = {finding["kind"]: finding["count"] for finding in spark["findings"]}["duplicate"]
    assert doubled == spark["rows_out"] - 60_000
    assert doubled > 0
    page = report.read_text()
    assert page.count("<svg") == 6
    assert f"{spark['rows_out']:,}" in page


def test_a_report_that_cannot_be_written_is_refused_before_the_work():
    """Not after three minutes."""
    done = subprocess.run(
        [*DEMO, "--report", "/no/such/folder/r.html"], capture_output=True, check=False, text=True
    )
    assert done.returncode == 2
    assert "/no/such/folder is no folder; make it first" in done.stderr


@pytest.mark.long
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_report_that_cannot_be_written_after_the_work():
    """The verdict is told all the same; the exit code says that something is missing."""
    arguments = ["--rows", "1000", "--kills", "0", "--report", "/dev/full", "--output", "json"]
    done = subprocess.run(
        [*DEMO, *arguments], capture_output=True, check=False, text=True, timeout=280
    )
    assert done.returncode == 1, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert [verdict["rows_out"] for verdict in found["verdicts"]] == [1_000, 1_000]
    assert found["report"] is None
    said = "--report /dev/full could not be written: No space left on device"
    assert done.stderr.splitlines()[-1] == said
    assert "Traceback" not in done.stderr


def begun(pid):
    """Whether the command itself runs: it imports NumPy, the command line around it does not."""
    return "numpy" in Path(f"/proc/{pid}/maps").read_text()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
@pytest.mark.parametrize("after_s", [1.0, 4.5, pytest.param(15.0, marks=pytest.mark.long)])
def test_ctrl_c_leaves_nothing_running(after_s):
    """Interrupted at any moment: exit code 130, one word, no traceback, no process."""
    demo = subprocess.Popen(DEMO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with demo:
        wait_until(lambda: begun(demo.pid), 60)
        time.sleep(after_s)
        started = descendants(demo.pid)
        demo.send_signal(signal.SIGINT)
        _, told = demo.communicate(timeout=90)
    assert demo.returncode in {130, -signal.SIGINT}
    assert "Traceback" not in told
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started))
