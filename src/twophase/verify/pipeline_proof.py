"""A proof of the user's own pipeline: run without faults, then under them, on the same rows.

The first rows of the source topic are copied, so that both runs read the same range though the
topic grows. What the run without faults wrote is what the other one must write: each id once.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from twophase.embedded.node import Node
from twophase.errors import ConfigurationError, StoreUnavailable
from twophase.kafka.counts import ask_partition_counts
from twophase.kafka.ends import end_offsets
from twophase.kafka.options import KafkaOptions
from twophase.kafka.wire import Wire
from twophase.pipeline.verifying import Verifiable
from twophase.verify.allowed import by_name, executor_conf, first_of, kinds_of
from twophase.verify.batches import Batches, planned_ends
from twophase.verify.chaos import ChaosPlan, chaos_on_full
from twophase.verify.copying import copy_topic
from twophase.verify.driver import Driver
from twophase.verify.history import History, HistoryFile
from twophase.verify.ids import Ids
from twophase.verify.proof import TARGET, Proof, ProofPlan, Told, unproved
from twophase.verify.reader import read_all
from twophase.verify.source import Source
from twophase.verify.supervisor import reason_in
from twophase.verify.trial import Trial
from twophase.verify.verdict import Finding, Kind, Verdict

REFERENCE: Final = "reference"
# What follows from ids alone says nothing of batches, nor of any order.
UNSEEN: Final = (Kind.TORN, Kind.REORDERED)
PROGRAM: Final = ("-m", "twophase.spark.proof_pipeline")
_HISTORY: Final = "history.jsonl"
_REFERENCE_S: Final = 600.0
_BATCHES: Final = 30
# Batches come one after the other, and the source is soon used up.
_QUIET_MAX_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Subject:
    """The pipeline under test, and the column that identifies its rows."""

    file: Path
    id_column: str
    what: Verifiable


class PipelineTrial(Trial):
    """A trial whose rows are known by their ids, and whose source is full from the beginning."""

    def finished(self) -> bool:
        """Whether Spark has noted the batch as done that ends the source."""
        done = self.last_done()
        ends = end_offsets(self.source.wire, self.source.topic)
        return done >= 0 and planned_ends(self.checkpoint, self.source.topic, done) == ends

    def batches(self) -> Batches | None:
        """Return None: which batch a row came from is in no id."""
        return None


def prove_pipeline(
    subject: Subject,
    prefix: str,
    folder: Path,
    plan: ProofPlan,
    *,
    nodes: Sequence[Node] = (),
    told: Told = lambda _rows, _faults: None,
) -> Proof:
    """Run the pipeline twice under a prefix and compare what readers saw."""
    options = KafkaOptions.parse(subject.what.sink_options)
    timeout_s = options.transaction_timeout_ms / 1000
    faults = ChaosPlan(
        seconds=plan.seconds,
        seed=plan.seed,
        timeout_s=timeout_s,
        quiet_max_s=_QUIET_MAX_S,
        kinds=kinds_of(plan.faults, plan.seconds, timeout_s),
        first=first_of(plan.faults),
    )
    with ExitStack() as stack:
        history = stack.enter_context(HistoryFile(folder / _HISTORY))
        source = stack.enter_context(_source(subject, prefix, plan, history))
        copied = _copy(subject, source, plan.rows)
        settings: dict[str, Any] = {
            "pipeline": str(subject.file.absolute()),
            "rows_per_batch": max(1, copied // _BATCHES),
            "master": plan.master,
            "conf": {**executor_conf(plan.master), **plan.conf},
        }
        source.input = _reference(subject, source, folder / REFERENCE, settings)
        trial = stack.enter_context(
            PipelineTrial(source, folder / TARGET, program=PROGRAM, **settings)
        )
        report = chaos_on_full(
            trial,
            nodes,
            faults,
            lambda counts: told(trial.reader.rows, by_name(plan.faults, counts)),
        )
        verdict = _without_order(trial.verdict())
    came = by_name(plan.faults, report.faults)
    why = unproved(verdict, came, unseen=UNSEEN)
    return Proof(verdict, came, why, report, History.load(folder / _HISTORY))


def _source(subject: Subject, prefix: str, plan: ProofPlan, history: HistoryFile) -> Source:
    """Return an empty source of the same shape as the user's topic."""
    options = KafkaOptions.parse(subject.what.source_options)
    return Source(
        ",".join(options.bootstrap_servers),
        1,
        history,
        name=prefix,
        connection=subject.what.sink_options,
        partitions=_partitions(options, subject.what.topic),
        replicas=plan.replicas,
    )


def _copy(subject: Subject, source: Source, rows_max: int) -> int:
    """Copy the first rows of the user's topic and return how many."""
    topic = subject.what.topic
    options = KafkaOptions.parse(subject.what.source_options)
    copied = copy_topic(options, topic, source.wire, source.topic, rows_max)
    if not copied:
        raise ConfigurationError(f"topic {topic} has no rows; a verification needs some")
    if subject.what.target is not None:
        # A row goes to the same partition as in the user's own topic.
        source.partitions = _partitions(options, subject.what.target)
    return copied


def _partitions(options: KafkaOptions, topic: str) -> int:
    with Wire(options) as wire:
        return ask_partition_counts(wire, [topic])[topic]


def _reference(subject: Subject, source: Source, folder: Path, settings: Mapping[str, Any]) -> Ids:
    """Run the pipeline without faults and return the ids of what it wrote."""
    folder.mkdir()
    target = f"{source.input.name}-{REFERENCE}"
    source.make_topic(target)
    run = {
        "servers": source.servers,
        "source": source.topic,
        "target": target,
        "checkpoint": str(folder / "checkpoint"),
        "sink": REFERENCE,
        "sink_id": target,
        "history": str(source.history.path),
        "until_used_up": True,
        **settings,
    }
    driver = Driver(run, source.history, folder / "driver.log", program=PROGRAM, name=REFERENCE)
    try:
        driver.start()
        code = driver.wait(_REFERENCE_S)
    finally:
        driver.close()
    if code:
        _, said = reason_in(driver.last_words())
        failed = StoreUnavailable(
            f"the pipeline failed in the run without faults, code {code}: {said or 'see its log'}"
        )
        failed.add_note(driver.last_words())
        raise failed
    # Closed also where a row is refused: a consumer's thread would keep the process from ending.
    with closing(read_all(source.options, target)) as rows:
        return Ids.of(source.input.name, subject.id_column, rows)


def _without_order(verdict: Verdict) -> Verdict:
    """Say of the order that it was not looked at; each row is a key of its own."""
    findings = tuple(
        Finding(each.kind, None) if each.kind is Kind.REORDERED else each
        for each in verdict.findings
    )
    return replace(verdict, findings=findings)
