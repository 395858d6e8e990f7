"""A trial whose driver can be told where to die or to wait, judged by two libraries' readers."""

import re
import shlex
import struct
import time
from pathlib import Path

from support.readers import read

from twophase.cli.main import run as command_line
from twophase.kafka.admin import TransactionState, describe_transaction, list_transactions
from twophase.verify.batches import planned
from twophase.verify.history import BatchDone, History
from twophase.verify.trial import Trial

PROGRAM = (str(Path(__file__).parent / "proof_faults.py"),)
RUN_S = 240.0


class FaultyTrial(Trial):
    """One query, which ends by itself when its source is used up."""

    def __init__(self, source, folder, *, rows_per_batch=300, **settings):
        self.gates = folder / "gates"
        super().__init__(
            source,
            folder,
            rows_per_batch=rows_per_batch,
            program=PROGRAM,
            **{"until_used_up": True, "gates": str(self.gates), **settings},
        )
        self.gates.mkdir()

    def __exit__(self, *_):
        super().__exit__()
        # Whatever the test has done, the reader's thread ends.
        self.reader._stopping.set()
        self.reader._deadline_s = 0.0
        self.reader._thread.join(20)

    def run(self, driver=None, **settings):
        """Run the driver until it ends, by itself or otherwise; return its exit code."""
        driver = driver or self.driver
        driver.start(**settings)
        return driver.wait(RUN_S)

    def finish(self, driver=None, **settings):
        """Run it until the source is used up."""
        driver = driver or self.driver
        assert self.run(driver, **settings) == 0, driver.last_words()

    def refused(self, code, driver=None, **settings):
        """Run it; it is refused by this code. Return what it said in this run."""
        driver = driver or self.driver
        before = len(said(driver))
        assert self.run(driver, **settings) == 1, driver.last_words()
        words = said(driver)[before:]
        assert code in words, words[-3_000:]
        return words

    def start_until(self, gate, driver=None, **settings):
        """Start it and return when it waits at the gate."""
        driver = driver or self.driver
        driver.start(**settings)
        self.until_at(gate, driver)

    def until_at(self, gate, driver=None):
        """Return when it waits at the gate."""
        driver = driver or self.driver
        until(
            lambda: (self.gates / f"{gate}.reached").exists() or driver.code is not None,
            f"the driver at {gate}",
        )
        assert driver.code is None, driver.last_words()

    def open(self, gate):
        """Let whoever waits at the gate go on."""
        (self.gates / f"{gate}.open").touch()

    def resolve(self, words, *, by):
        """Run the command of a refusal that has this option, as a person would."""
        lines = set(re.findall(r"^  twophase (sinks adopt .*)$", words, re.MULTILINE))
        (line,) = {line for line in lines if by in line and self.settings["sink_id"] in line}
        servers = ["--bootstrap-server", self.source.servers, "--yes"]
        assert command_line([*shlex.split(line), *servers]) == 0

    def state(self):
        """How the broker sees the sink's transactional id."""
        return describe_transaction(self.source.wire, self.transactional_id)

    def open_ids(self):
        return open_ids(self)

    def is_open(self):
        return bool(open_ids(self))

    def records(self):
        """The sink's own records of its calls, in order."""
        history = History.load(self.source.history.path)
        return [done.record for done in history.all(BatchDone) if done.sink == self.sink]

    def outcomes(self):
        return [(record["batch"], record["outcome"]) for record in self.records()]

    def batches_planned(self):
        """How many batches Spark has planned so far."""
        return 1 + max(planned(self.checkpoint, self.source.topic))

    def judged(self):
        """The verdict; the final reader is of another library."""
        return self.verdict(lambda: read(self.source.servers, self.target))

    def check(self):
        """Each row once, each key in order, no batch torn, nothing left open, all of it checked."""
        verdict = self.judged()
        assert verdict.not_checked == ()
        assert verdict.ok, verdict.findings
        assert verdict.rows_out == self.source.input.rows


def open_ids(trial):
    """The ids under which rows are being written; raises where a broker is away."""
    if not trial.by_task:
        seen = describe_transaction(trial.source.wire, trial.transactional_id)
        return [trial.transactional_id] if seen is not None and seen.is_open else []
    # Not the sink's own id, under which its start writes the marker.
    prefix, states = f"{trial.transactional_id}//", (TransactionState.ONGOING,)
    found = list_transactions(trial.source.wire, prefix=prefix, states=states)
    return sorted(row.transactional_id for row in found)


def said(driver):
    """All that the driver's processes have said so far."""
    return driver._log.read_text(errors="replace") if driver._log.exists() else ""


def until(met, what, timeout_s=RUN_S):
    """Wait until something is the case."""
    deadline = time.monotonic() + timeout_s
    while not met():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.02)


def error_of(answer):
    """The error code of an EndTxn answer: behind correlation id, tags and throttle time."""
    return struct.unpack_from(">h", answer, 4 + 1 + 4)[0]
