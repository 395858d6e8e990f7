"""Chaos: faults drawn from a seed, one after the other, against a query and its cluster under load.

The next fault comes a random moment after Spark has noted another batch as done, so that each one
meets a query that works. Kinds are drawn from a bag that holds each once and is filled again when
it is empty: in a long run all of them come equally often. The query's driver is started again
whenever it ends, as a supervisor would.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from twophase.embedded import EmbeddedKafka
from twophase.errors import ConfigurationError, StoreUnavailable
from twophase.verify.driver import Driver
from twophase.verify.history import FaultInjected
from twophase.verify.processes import executors_below
from twophase.verify.supervisor import Supervisor
from twophase.verify.trial import Trial

_QUIET_MAX_S: Final = 10.0
_EXECUTORS_TIMEOUT_S: Final = 60.0
_RIVAL_MAX_S: Final = 180.0
_RIVAL_LOOK_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class ChaosPlan:
    """How long faults come, from which seed, and how fast the source is filled meanwhile.

    `timeout_s` is the sink's transaction timeout, which a long freeze outlasts; `stall_limit_s` is
    how long the query may take to have a batch done again before that counts as a failure.
    """

    seconds: float
    seed: int
    rows_per_s: int = 10_000
    timeout_s: float = 60.0
    stall_limit_s: float = 300.0

    @property
    def rows(self) -> int:
        """How many rows the source gets."""
        return int(self.seconds * self.rows_per_s)


@dataclass(frozen=True, slots=True)
class ChaosReport:
    """What was done to the query, and how it went on meanwhile.

    `longest_stall_s` is the longest time without a batch done, `exits` why drivers ended by
    themselves.
    """

    seed: int
    took_s: float
    faults: Mapping[str, int]
    rows: int
    rows_per_s: float
    batches: int
    starts: int
    exits: Mapping[str, int]
    longest_stall_s: float


class Stage:
    """What a fault has at hand."""

    def __init__(self, trial: Trial, cluster: EmbeddedKafka, plan: ChaosPlan) -> None:
        self.trial, self.cluster, self.plan = trial, cluster, plan
        self.rng = random.Random(plan.seed)  # noqa: S311 - it picks moments, not secrets
        self.supervisor = Supervisor(trial)
        self.rival = trial.another_driver("rival")

    @property
    def driver(self) -> Driver:
        """The query's driver."""
        return self.trial.driver

    def pause(self, least_s: float, most_s: float) -> None:
        """Let some time pass, in which the query is tended."""
        self.supervisor.sleep(self.rng.uniform(least_s, most_s))

    def works_again(self) -> bool:
        """Wait until another batch is done, and a moment longer; False when all rows are written.

        All of them are written only when the time is over, or nearly so.
        """
        trial, due = self.trial, self.trial.last_done() + 1
        self.supervisor.wait_until(
            lambda: trial.last_done() >= due or trial.finished(), self.plan.stall_limit_s
        )
        self.pause(0, _QUIET_MAX_S)
        with suppress(StoreUnavailable):
            return not trial.finished()
        return True

    def note(self, kind: str, target: str) -> None:
        """Put a fault into the history."""
        fault = FaultInjected(sink=self.trial.sink, kind=kind, target=target)
        self.trial.source.history.record(fault)


Fault = Callable[[Stage], None]


def _kill_driver(stage: Stage) -> None:
    stage.driver.kill()


def _kill_python(stage: Stage) -> None:
    stage.driver.kill_python()


def _freeze_briefly(stage: Stage) -> None:
    stage.driver.freeze()
    stage.pause(1, 5)
    stage.driver.thaw()


def _freeze_past_timeout(stage: Stage) -> None:
    stage.driver.freeze()
    stage.pause(stage.plan.timeout_s + 1, stage.plan.timeout_s + 5)
    stage.driver.thaw()


def _kill_broker(stage: Stage) -> None:
    node = stage.rng.choice(stage.cluster.nodes)
    stage.note("kill -9", f"node {node.node_id}")
    node.kill()
    stage.pause(0, 10)
    node.start()


def _pause_broker(stage: Stage) -> None:
    """Also for longer than the cluster waits for a broker's sign of life."""
    node = stage.rng.choice(stage.cluster.nodes)
    stage.note("SIGSTOP", f"node {node.node_id}")
    node.pause()
    try:
        stage.pause(1, 12)
    finally:
        node.resume()


def _start_rival(stage: Stage) -> None:
    """Start a second driver of the same query; a while after one of the two has lost, end it."""
    stage.note("rival", "driver")
    rival, starts = stage.rival, stage.supervisor.starts
    until_s = time.monotonic() + _RIVAL_MAX_S
    rival.start()
    while rival.running and stage.supervisor.starts == starts and time.monotonic() < until_s:
        stage.pause(_RIVAL_LOOK_S, _RIVAL_LOOK_S)
    stage.pause(0, 10)
    rival.end()


def _kill_executor(stage: Stage) -> None:
    def found() -> bool:
        pid = stage.driver.pid
        return pid is not None and bool(executors_below(pid))

    stage.supervisor.wait_until(found, _EXECUTORS_TIMEOUT_S)
    executors = executors_below(stage.driver.pid or 0)
    if executors:
        victim = stage.rng.choice(executors)
        stage.note("kill -9", f"executor {victim.pid}")
        victim.send(9)


FAULTS: Final[Mapping[str, Fault]] = {
    "driver killed": _kill_driver,
    "Python alone killed": _kill_python,
    "driver frozen": _freeze_briefly,
    "driver frozen past the timeout": _freeze_past_timeout,
    "broker killed": _kill_broker,
    "broker paused": _pause_broker,
    "rival driver": _start_rival,
    "executor killed": _kill_executor,
}


def chaos(trial: Trial, cluster: EmbeddedKafka, plan: ChaosPlan) -> ChaosReport:
    """Let faults come for the planned time, then let the query finish; nothing of it runs after.

    The trial's source must have the plan's rows. Whether all went well is the trial's verdict.
    """
    if trial.source.input.rows != plan.rows:
        raise ConfigurationError(
            f"the source has {trial.source.input.rows} rows and the plan {plan.rows}; make the "
            "source with the rows of the plan"
        )
    stage, counts = Stage(trial, cluster, plan), Counter[str]()
    supervisor = stage.supervisor
    # The first start takes long and is not what is measured.
    trial.source.fill(0, plan.rows_per_s)
    supervisor.wait_for_batches(1, plan.stall_limit_s)
    supervisor.longest_stall_s, began_s = 0.0, time.monotonic()
    with trial.source.filling(plan.rows_per_s, first=plan.rows_per_s) as filled:
        for kind in _drawn(stage.rng):
            if not stage.works_again() or time.monotonic() - began_s > plan.seconds:
                break
            FAULTS[kind](stage)
            counts[kind] += 1
        filled.result(plan.stall_limit_s)
        supervisor.wait_until(trial.finished, plan.seconds + plan.stall_limit_s)
    trial.driver.end()
    took_s = time.monotonic() - began_s
    return ChaosReport(
        seed=plan.seed,
        took_s=took_s,
        faults=dict(counts),
        rows=plan.rows,
        rows_per_s=plan.rows / took_s,
        batches=trial.last_done() + 1,
        starts=supervisor.starts,
        exits=dict(supervisor.exits),
        longest_stall_s=supervisor.longest_stall_s,
    )


def _drawn(rng: random.Random) -> Iterator[str]:
    """Yield kinds for ever, each as often as the others."""
    while True:
        bag = list(FAULTS)
        rng.shuffle(bag)
        yield from bag
