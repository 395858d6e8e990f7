"""The query of the proof harness, told where to die, to wait or to fail.

    python proof_faults.py '{"servers": ..., "faults": [["after", "send", 2, "die"]], ...}'

Beside a `QuerySettings` the one argument may have
faults    [when, step, batch, act], ...: before or after a step of this batch or a later one, once;
          the act is "die" (Python alone: its JVM goes on for a moment), "die whole" (the process
          group), "raise", or "wait at NAME": until the test opens that gate
gates     the folder of the gates
kafka     more options of the sink
twice     the batch for which the sink is called twice
restarts  how often the query is started again in this process, with the same sink object
The steps are the package's own, wrapped here: nothing in the package knows of this.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

from twophase.kafka.store import KafkaStore
from twophase.kafka.task_sink import KafkaTaskSink
from twophase.log.decisions import DecisionLog
from twophase.spark import proof_query
from twophase.spark.engine import SparkEngine
from twophase.spark.kafka_sink import KafkaSink
from twophase.verify.history import FaultInjected, HistoryFile

STEPS = {
    "peek_marker": (KafkaStore, "peek_marker"),
    "describe_last": (KafkaStore, "describe_last"),
    "own": (KafkaStore, "own"),
    "read_marker": (KafkaStore, "read_marker"),
    "prepare": (SparkEngine, "prepare"),
    "send": (SparkEngine, "send"),
    "write_marker": (KafkaStore, "write_marker"),
    "commit": (KafkaStore, "commit"),
    # In task scope, where a start of the sink takes those of `KafkaStore` once.
    "open": (KafkaTaskSink, "open"),
    "confirm": (KafkaTaskSink, "confirm"),
    "decide": (DecisionLog, "decide"),
    "commit a task": (KafkaTaskSink, "commit"),
}
GATE_LIMIT_S = 240.0


class Told(KafkaSink):
    """A sink that knows which batch it is at, and may be called twice for one."""

    batch = -1
    twice = None

    def __call__(self, frame, batch_id):
        Told.batch = batch_id
        super().__call__(frame, batch_id)
        if batch_id == self.twice:
            super().__call__(frame, batch_id)


class Faults:
    """What goes wrong where."""

    def __init__(self, settings):
        self.gates = Path(settings.pop("gates", "."))
        self.sink, self.history = settings["sink"], HistoryFile(Path(settings["history"]))
        for when, step, batch, act in settings.pop("faults", ()):
            self.plant(when, step, batch, act)

    def plant(self, when, step, batch, act):
        """Wrap the step; the act happens once."""
        owner, method = STEPS[step]
        # An iterator, because commits run side by side in task scope.
        real, left = getattr(owner, method), iter([act])

        def happens_now(moment):
            if moment == when and Told.batch >= batch and (due := next(left, None)):
                self.happen(due, f"{when} {step} of batch {Told.batch}")

        def wrapped(*args, **kwargs):
            happens_now("before")
            result = real(*args, **kwargs)
            happens_now("after")
            return result

        setattr(owner, method, wrapped)

    def happen(self, act, where):
        self.history.record(FaultInjected(sink=self.sink, kind=act, target=where))
        if act == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif act == "die whole":
            os.killpg(os.getpgid(0), signal.SIGKILL)
        elif act == "raise":
            raise RuntimeError(f"a fault of the test {where}")
        else:
            self.wait_at(act.removeprefix("wait at "))

    def wait_at(self, name):
        """Tell that the gate is reached, and wait until it is open."""
        (self.gates / f"{name}.reached").touch()
        deadline = time.monotonic() + GATE_LIMIT_S
        while not (self.gates / f"{name}.open").exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"gate {name} was not opened")
            time.sleep(0.02)


def one_sink(kafka, twice):
    """Return a maker of sinks that makes one, with more options, and then hands out the same."""
    made = []

    def make(*, options, **given):
        if not made:
            Told.twice = twice
            made.append(Told(options={**options, **kafka}, **given))
        return made[0]

    return make


class Kept(HistoryFile):
    """A history that stays open: the one sink object writes to it in every run."""

    def close(self):
        pass


def main(settings):
    """Run the query, as often as it is to be started in this process."""
    Faults(settings)
    proof_query.HistoryFile = Kept
    restarts = settings.pop("restarts", 0)
    proof_query.KafkaSink = one_sink(settings.pop("kafka", {}), settings.pop("twice", None))
    for left in range(restarts, -1, -1):
        try:
            proof_query.main(json.dumps(settings))
        except Exception as error:
            if not left:
                raise
            print(f"started again after: {error}", flush=True)
        else:
            break


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
