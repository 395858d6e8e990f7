"""Whether the materialised blocks are one version of the batch, whole: checked before any is sent.

Spark may run single encode tasks again after it lost an executor. Where their input has no stable
order (behind any shuffle), rows move between blocks: routed partitions that were finished hold the
first attempt's blocks, the others the second's, and rows are lost and doubled with every count
right. So every attempt of an encode task sends a manifest to *every* routed partition, also to
those that get no block of it, and every block is labelled by the attempt that made it.

A routed partition is whole when it has one manifest of each encode task, and of the attempt that
the manifest names exactly the blocks that it lists, in order. The batch is one version when all
routed partitions name the same attempt of each task. Each is examined by itself, where it lies;
only the reports come together.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from twophase.commit.summary import PartitionSummary, Summary, digest


@dataclass(frozen=True, slots=True)
class Label:
    """What is known of one block: where it goes, who made it, which one it is, what it holds.

    `sequence` counts the blocks of one attempt to one output partition, from 0.
    """

    topic: str
    partition: int
    task: int
    attempt: int
    sequence: int
    rows: int
    bytes: int
    checksum: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What one attempt of an encode task says that it sent to one routed partition."""

    task: int
    attempt: int
    blocks: int
    digest: str


@dataclass(frozen=True, slots=True)
class Part:
    """One routed partition as it was materialised, the labels in the order of their blocks."""

    index: int
    labels: Sequence[Label]
    manifests: Sequence[Manifest]


@dataclass(frozen=True, slots=True)
class Report:
    """One routed partition that is whole: the attempt of each encode task, and what it holds."""

    index: int
    attempts: tuple[int, ...]
    partitions: tuple[PartitionSummary, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """Why the blocks must not be sent."""

    reason: str


def manifest_of(task: int, attempt: int, labels: Iterable[Label]) -> Manifest:
    """Return the manifest of what one attempt sent to one routed partition, maybe nothing."""
    ordered = sorted(labels, key=_order)
    return Manifest(task, attempt, len(ordered), digest(label.checksum for label in ordered))


def check(parts: Iterable[Part], *, tasks: int, routed: int) -> Summary | Fault:
    """Return what the batch holds if its blocks are one whole version of it.

    `tasks` encode tasks and `routed` partitions are due, each numbered from 0.
    """
    return combine([examine(part, tasks) for part in parts], routed)


def examine(part: Part, tasks: int) -> Report | Fault:
    """Return what one routed partition holds if it is whole."""
    by_task: dict[int, list[Label]] = defaultdict(list)
    for label in part.labels:
        by_task[label.task].append(label)
    manifests: dict[int, Manifest] = {}
    for manifest in part.manifests:
        if manifest.task in manifests:
            return Fault(f"encode task {manifest.task} has two manifests in one routed partition")
        manifests[manifest.task] = manifest
    strange = sorted((set(manifests) | set(by_task)) - set(range(tasks)))
    missing = sorted(set(range(tasks)) - set(manifests))
    if strange or missing:
        return Fault(
            f"routed partition {part.index} is due to have manifests of {tasks} encode tasks; it "
            f"lacks those of {missing[:9]} and has something of {strange[:9]}"
        )
    for task, manifest in manifests.items():
        fault = _fault_of_task(manifest, by_task[task])
        if fault is not None:
            return fault
    fault = _fault_of_order(part.labels)
    if fault is not None:
        return fault
    attempts = tuple(manifests[task].attempt for task in range(tasks))
    return Report(part.index, attempts, tuple(_summaries(part.labels)))


def combine(reports: Sequence[Report | Fault], routed: int) -> Summary | Fault:
    """Return what the batch holds if all routed partitions hold the same version of it."""
    indexes = sorted(report.index for report in reports if isinstance(report, Report))
    if len(indexes) == len(reports) and indexes != list(range(routed)):
        return Fault(f"{routed} routed partitions are due; there are {indexes[:9]}")
    attempts: tuple[int, ...] | None = None
    found: dict[tuple[str, int], PartitionSummary] = {}
    for report in reports:
        if isinstance(report, Fault):
            return report
        if attempts is not None and report.attempts != attempts:
            pairs = enumerate(zip(attempts, report.attempts, strict=True))
            task = next(task for task, (one, other) in pairs if one != other)
            return Fault(f"encode task {task} was run again: two versions of its blocks are mixed")
        attempts = report.attempts
        for summary in report.partitions:
            place = (summary.topic, summary.partition)
            if place in found:
                return Fault(f"{place[0]}-{place[1]} lies in two routed partitions")
            found[place] = summary
    return Summary(tuple(sorted(found.values())))


def _fault_of_task(manifest: Manifest, labels: list[Label]) -> Fault | None:
    task = manifest.task
    strange = {label.attempt for label in labels} - {manifest.attempt}
    if strange:
        return Fault(
            f"encode task {task} was run again: blocks of attempt {min(strange)} lie beside the "
            f"manifest of attempt {manifest.attempt}"
        )
    if len(labels) != manifest.blocks:
        return Fault(f"encode task {task} sent {manifest.blocks} blocks, {len(labels)} are there")
    if manifest_of(task, manifest.attempt, labels) != manifest:
        return Fault(f"the blocks of encode task {task} are not those that it sent")
    return None


def _fault_of_order(labels: Iterable[Label]) -> Fault | None:
    """Order is by output partition: blocks of several may lie mixed in one routed partition."""
    expected: dict[tuple[str, int], tuple[int, int]] = defaultdict(lambda: (-1, 0))
    for label in labels:
        place = (label.topic, label.partition)
        task, sequence = expected[place]
        if label.task > task:
            task, sequence = label.task, 0
        if (label.task, label.sequence) != (task, sequence):
            return Fault(
                f"{label.topic}-{label.partition}: block {label.sequence} of encode task "
                f"{label.task} is out of its place"
            )
        expected[place] = (task, sequence + 1)
    return None


def _summaries(labels: Iterable[Label]) -> Iterable[PartitionSummary]:
    # A stable sort: within an output partition the blocks keep the order in which they lie.
    ordered = sorted(labels, key=_place)
    for (topic, partition), group in groupby(ordered, key=_place):
        blocks = list(group)
        yield PartitionSummary(
            topic,
            partition,
            len(blocks),
            sum(block.rows for block in blocks),
            sum(block.bytes for block in blocks),
            digest(block.checksum for block in blocks),
        )


def _place(label: Label) -> tuple[str, int]:
    return label.topic, label.partition


def _order(label: Label) -> tuple[str, int, int]:
    return label.topic, label.partition, label.sequence
