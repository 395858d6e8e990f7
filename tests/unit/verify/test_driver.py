"""The driver's process: what it is told, and what others on the machine can see of it."""

import json
from pathlib import Path

import pytest
from support.waiting import wait_until

from twophase.verify.driver import CONNECTION, Driver
from twophase.verify.history import HistoryFile


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks into /proc")
def test_secrets_are_not_in_the_process_list(tmp_path):
    """Options of the connection come by the environment; the command line has the settings."""
    program = ("-c", "import time; time.sleep(60)")
    connection = {"kafka.sasl.jaas.config": "canary-of-a-password"}
    with HistoryFile(tmp_path / "history") as history:
        driver = Driver(
            {"sink": "s", "target": "out"},
            history,
            tmp_path / "log",
            program=program,
            connection=connection,
        )
        driver.start()
        try:
            shown = Path(f"/proc/{driver.pid}/cmdline")
            # Empty for a moment while the program begins.
            wait_until(lambda: b"target" in shown.read_bytes())
            seen = shown.read_bytes()
            own = Path(f"/proc/{driver.pid}/environ").read_bytes()
        finally:
            driver.close()
    # What it leaves behind when it is killed is with the rest.
    assert f"TMPDIR={tmp_path / 'scratch'}\0".encode() in own
    assert b'"target": "out"' in seen
    assert b"canary" not in seen
    assert f"{CONNECTION}={json.dumps(connection)}".encode() in own
    assert b"canary" not in (tmp_path / "history").read_bytes()
