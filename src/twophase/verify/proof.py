"""A proof on a cluster: a trial under the faults that are allowed, and whether it proves anything.

What did not happen proves nothing: a run in which an allowed fault did not come, or of which no row
was read back, is not clean but unproved, and says why.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from twophase.embedded.node import Node
from twophase.guarantee import Guarantee
from twophase.kafka.options import KafkaOptions
from twophase.verify.allowed import by_name, executor_conf, first_of, kinds_of
from twophase.verify.chaos import ChaosPlan, ChaosReport, chaos
from twophase.verify.history import History, HistoryFile
from twophase.verify.source import Source
from twophase.verify.topics import BY_DEFAULT, PARTITIONS
from twophase.verify.trial import Trial
from twophase.verify.verdict import LABELS, Kind, Verdict

SOURCE, TARGET = "in", "out"
_HISTORY: Final = "history.jsonl"
_QUIET_MAX_S: Final = 10.0
# So that a run of a minute has several faults in it.
_QUIET_SHARE: Final = 20

Told = Callable[[int, Mapping[str, int]], None]


@dataclass(frozen=True, slots=True)
class ProofPlan:
    """How long, how fast, which faults, and of what the trial is made; `conf` is for Spark."""

    seconds: float
    rows_per_s: int
    faults: tuple[str, ...]
    master: str
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    partitions: int = PARTITIONS
    replicas: int = BY_DEFAULT
    seed: int = 0
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many rows are written."""
        return int(self.seconds * self.rows_per_s)


@dataclass(frozen=True, slots=True)
class Proof:
    """What came of it; `unproved` says why nothing follows from a clean verdict."""

    verdict: Verdict
    faults: Mapping[str, int]
    unproved: tuple[str, ...]
    chaos: ChaosReport
    history: History

    @property
    def ok(self) -> bool:
        """Whether every row is there once, and that means something."""
        return self.verdict.ok and not self.unproved


def prove(
    connection: Mapping[str, str],
    prefix: str,
    folder: Path,
    plan: ProofPlan,
    *,
    nodes: Sequence[Node] = (),
    told: Told = lambda _rows, _faults: None,
) -> Proof:
    """Run a trial under a prefix and judge it; `nodes` are brokers that may be hurt.

    `told` hears many times a second how many rows readers have seen and which faults have come.
    """
    options = KafkaOptions.parse(connection)
    timeout_s = options.transaction_timeout_ms / 1000
    faults = ChaosPlan(
        seconds=plan.seconds,
        seed=plan.seed,
        rows_per_s=plan.rows_per_s,
        timeout_s=timeout_s,
        quiet_max_s=min(_QUIET_MAX_S, plan.seconds / _QUIET_SHARE),
        kinds=kinds_of(plan.faults, plan.seconds, timeout_s),
        first=first_of(plan.faults),
    )
    with ExitStack() as stack:
        history = stack.enter_context(HistoryFile(folder / _HISTORY))
        source = Source(
            ",".join(options.bootstrap_servers),
            plan.rows,
            history,
            name=prefix,
            connection=connection,
            partitions=plan.partitions,
            replicas=plan.replicas,
        )
        stack.enter_context(source)
        trial = stack.enter_context(Trial(source, folder / TARGET, **_settings(plan)))
        report = chaos(
            trial,
            nodes,
            faults,
            lambda counts: told(trial.reader.rows, by_name(plan.faults, counts)),
        )
        verdict = trial.verdict()
    came = by_name(plan.faults, report.faults)
    return Proof(verdict, came, unproved(verdict, came), report, History.load(folder / _HISTORY))


def unproved(
    verdict: Verdict, faults: Mapping[str, int], *, unseen: Sequence[Kind] = ()
) -> tuple[str, ...]:
    """Return why nothing follows from a clean verdict; nothing where something does.

    `unseen` is what this proof does not claim to look at.
    """
    why = [
        f"{name} was allowed and did not come; give more time with --for"
        for name, count in faults.items()
        if not count
    ]
    if not faults:
        why.append("no fault came")
    if not verdict.rows_in:
        why.append("no row was written to the source")
    if not verdict.rows_out:
        why.append("no row was read back")
    missing = [kind for kind in verdict.not_checked if kind not in unseen]
    why += [f"{LABELS[kind]}: not checked" for kind in missing]
    return tuple(why)


def _settings(plan: ProofPlan) -> dict[str, Any]:
    return {
        # Twice what comes in a second: a query that was down must catch up.
        "rows_per_batch": 2 * plan.rows_per_s,
        "master": plan.master,
        "conf": {**executor_conf(plan.master), **plan.conf},
        "options": {"guarantee": plan.guarantee.value},
    }
