"""Chaos: faults drawn from a seed, one after the other, against a query and its cluster under load.

The next fault comes a random moment after Spark has noted another batch as done, so that each one
meets a query that works. Kinds are drawn from a bag that holds each once and is filled again when
it is empty: in a long run all of them come equally often. What a plan names as first lies on top of
the first bag, so that a short run has it. The query's driver is started again
whenever it ends, as a supervisor would.
"""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from twophase.embedded.node import Node
from twophase.errors import ConfigurationError, StoreUnavailable
from twophase.verify.driver import Driver
from twophase.verify.duel import Killer, Moment
from twophase.verify.history import FaultInjected
from twophase.verify.processes import executors_below
from twophase.verify.supervisor import Supervisor
from twophase.verify.trial import Trial

if TYPE_CHECKING:
    from twophase.embedded.process import ProcessIdentity

_EXECUTORS_TIMEOUT_S: Final = 60.0
_RIVAL_MAX_S: Final = 180.0
_RIVAL_LOOK_S: Final = 0.2
# A query that has never worked, and ends again and again, will not work by being started again.
_HOPELESS: Final = 3


@dataclass(frozen=True, slots=True)
class ChaosPlan:
    """How long faults come, from which seed, and how fast the source is filled meanwhile.

    `timeout_s` is the sink's transaction timeout, which a long freeze outlasts; `stall_limit_s` is
    how long the query may take to have a batch done again before that counts as a failure;
    `quiet_max_s` is the longest time between a batch done and the next fault; `kinds` are the
    faults that may come, `first` those of them that come once before the others.
    """

    seconds: float
    seed: int
    rows_per_s: int = 10_000
    timeout_s: float = 60.0
    stall_limit_s: float = 300.0
    quiet_max_s: float = 10.0
    kinds: tuple[str, ...] = ()
    first: tuple[str, ...] = ()

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

    def __init__(
        self, trial: Trial, nodes: Sequence[Node], plan: ChaosPlan, told: Callable[[], None]
    ) -> None:
        self.trial, self.nodes, self.plan = trial, nodes, plan
        self.rng = random.Random(plan.seed)  # noqa: S311 - it picks moments, not secrets
        self.supervisor = Supervisor(trial, told=told)
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
        self.pause(0, self.plan.quiet_max_s)
        with suppress(StoreUnavailable):
            return not trial.finished()
        return True

    def note(self, kind: str, target: str) -> None:
        """Put a fault into the history."""
        fault = FaultInjected(sink=self.trial.sink, kind=kind, target=target)
        self.trial.source.history.record(fault)


Told = Callable[[Mapping[str, int]], None]
# Tells whether it has come.
Fault = Callable[[Stage], bool]


def _kill_driver(stage: Stage) -> bool:
    came = stage.driver.running
    stage.driver.kill()
    return came


def _kill_in_batch(stage: Stage) -> bool:
    """Kill the driver with a part of a batch in the log, where that can be met."""
    moment, killers = Moment(0, stage.rng.uniform(0.2, 0.6)), list[Killer]()

    def over() -> bool:
        # It asks the brokers, which may not answer yet after the last fault.
        killer = killers[0] if killers else Killer(stage.trial, moment)
        killers[:] = [killer]
        return killer() or stage.trial.finished()

    stage.supervisor.wait_until(over, stage.plan.stall_limit_s)
    return killers[0].killed


def _kill_python(stage: Stage) -> bool:
    came = stage.driver.running
    stage.driver.kill_python()
    return came


def _freeze_briefly(stage: Stage) -> bool:
    came = stage.driver.running
    stage.driver.freeze()
    stage.pause(1, 5)
    stage.driver.thaw()
    return came


def _freeze_past_timeout(stage: Stage) -> bool:
    came = stage.driver.running
    stage.driver.freeze()
    stage.pause(stage.plan.timeout_s + 1, stage.plan.timeout_s + 5)
    stage.driver.thaw()
    return came


def _kill_broker(stage: Stage) -> bool:
    node = stage.rng.choice(stage.nodes)
    stage.note("kill -9", f"node {node.node_id}")
    node.kill()
    try:
        stage.pause(0, 10)
    finally:
        # Also after Ctrl-C: whoever waits for an answer of this broker would wait in vain.
        node.start()
    return True


def _pause_broker(stage: Stage) -> bool:
    """Also for longer than the cluster waits for a broker's sign of life."""
    node = stage.rng.choice(stage.nodes)
    stage.note("SIGSTOP", f"node {node.node_id}")
    node.pause()
    try:
        stage.pause(1, 12)
    finally:
        node.resume()
    return True


def _start_rival(stage: Stage) -> bool:
    """Start a second driver of the same query; a while after one of the two has lost, end it."""
    stage.note("rival", "driver")
    rival, starts = stage.rival, stage.supervisor.starts
    until_s = time.monotonic() + _RIVAL_MAX_S
    rival.start()
    while rival.running and stage.supervisor.starts == starts and time.monotonic() < until_s:
        stage.pause(_RIVAL_LOOK_S, _RIVAL_LOOK_S)
    stage.pause(0, 10)
    rival.end()
    return True


def _kill_executor(stage: Stage) -> bool:
    found: list[ProcessIdentity] = []

    def look() -> bool:
        pid = stage.driver.pid
        found[:] = [] if pid is None else executors_below(pid)
        return bool(found)

    stage.supervisor.wait_until(look, _EXECUTORS_TIMEOUT_S)
    # Of this look and no later one: below a driver that has just ended are other people's.
    victim = stage.rng.choice(found)
    came = victim.send(signal.SIGKILL)
    if came:
        stage.note("kill -9", f"executor {victim.pid}")
    return came


IN_BATCH: Final = "driver killed in a batch"
FAULTS: Final[Mapping[str, Fault]] = {
    "driver killed": _kill_driver,
    IN_BATCH: _kill_in_batch,
    "Python alone killed": _kill_python,
    "driver frozen": _freeze_briefly,
    "driver frozen past the timeout": _freeze_past_timeout,
    "broker killed": _kill_broker,
    "broker paused": _pause_broker,
    "rival driver": _start_rival,
    "executor killed": _kill_executor,
}


def chaos(
    trial: Trial,
    nodes: Sequence[Node],
    plan: ChaosPlan,
    told: Told = lambda _: None,
) -> ChaosReport:
    """Let faults come for the planned time, then let the query finish; nothing of it runs after.

    The trial's source must have the plan's rows, `nodes` are the brokers that may be hurt. `told`
    hears many times a second which faults have come. Whether all went well is the trial's verdict.
    """
    if trial.source.input.rows != plan.rows:
        raise ConfigurationError(
            f"the source has {trial.source.input.rows} rows and the plan {plan.rows}; make the "
            "source with the rows of the plan"
        )
    storm = _Storm(trial, nodes, plan, told)
    supervisor = storm.stage.supervisor
    trial.source.fill(0, plan.rows_per_s)
    storm.begin()
    with trial.source.filling(plan.rows_per_s, first=plan.rows_per_s) as filled:
        storm.rage()
        filled.result(plan.stall_limit_s)
        supervisor.wait_until(trial.finished, plan.seconds + plan.stall_limit_s)
    return storm.end()


def chaos_on_full(
    trial: Trial, nodes: Sequence[Node], plan: ChaosPlan, told: Told = lambda _: None
) -> ChaosReport:
    """Do the same to a query whose source is full already, until it is used up."""
    storm = _Storm(trial, nodes, plan, told)
    storm.begin()
    storm.rage()
    storm.stage.supervisor.wait_until(trial.finished, plan.seconds + plan.stall_limit_s)
    return storm.end()


class _Storm:
    """The faults of a plan, from the first to the last."""

    def __init__(self, trial: Trial, nodes: Sequence[Node], plan: ChaosPlan, told: Told) -> None:
        self._trial, self._plan = trial, plan
        self._counts = Counter[str]()
        self.stage = Stage(trial, nodes, plan, lambda: told(self._counts))
        self._began_s = time.monotonic()

    def begin(self) -> None:
        """Wait for the first batch, and begin to measure; the first start takes long."""
        trial, supervisor = self._trial, self.stage.supervisor
        supervisor.wait_until(
            lambda: trial.last_done() >= 0 or supervisor.exits.total() >= _HOPELESS,
            self._plan.stall_limit_s,
        )
        if trial.last_done() < 0:
            hopeless = StoreUnavailable(
                f"the query of {trial.sink} ended by itself {supervisor.exits.total()} times before"
                f" its first batch: {', '.join(supervisor.exits)}{supervisor.why_at_last()}"
            )
            hopeless.add_note(f"its last words: {trial.driver.last_words()}")
            raise hopeless
        # It sees the first batch, and what comes before is no stall.
        supervisor.tend()
        supervisor.longest_stall_s, self._began_s = 0.0, time.monotonic()

    def rage(self) -> None:
        """Let one fault come after the other, until the time is over or all rows are written."""
        stage, plan = self.stage, self._plan
        for kind in _drawn(stage.rng, plan.kinds or tuple(FAULTS), plan.first):
            if not stage.works_again() or time.monotonic() - self._began_s > plan.seconds:
                break
            self._counts[kind] += FAULTS[kind](stage)

    def end(self) -> ChaosReport:
        """End the query and tell how it went."""
        trial, supervisor = self._trial, self.stage.supervisor
        trial.driver.end()
        took_s, rows = time.monotonic() - self._began_s, trial.source.input.rows
        return ChaosReport(
            seed=self._plan.seed,
            took_s=took_s,
            faults={kind: count for kind, count in self._counts.items() if count},
            rows=rows,
            rows_per_s=rows / took_s,
            batches=trial.last_done() + 1,
            starts=supervisor.starts,
            exits=dict(supervisor.exits),
            longest_stall_s=supervisor.longest_stall_s,
        )


def _drawn(rng: random.Random, kinds: Sequence[str], first: Sequence[str]) -> Iterator[str]:
    """Yield kinds for ever, each as often as the others."""
    top, bag = list(first), [kind for kind in kinds if kind not in first]
    rng.shuffle(top)
    yield from top
    while True:
        rng.shuffle(bag)
        yield from bag
        bag = list(kinds)
