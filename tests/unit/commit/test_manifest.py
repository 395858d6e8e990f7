"""The check of the blocks: any mixture, loss or repetition is found before anything is sent."""

import random
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twophase.commit.manifest import Fault, Label, Part, check, manifest_of
from twophase.commit.summary import Summary, digest

ROUTED = 3
OUTPUTS = 5


@dataclass(frozen=True)
class Batch:
    """Routed partitions as lists, to be damaged by a test."""

    tasks: int
    labels: list
    manifests: list

    def check(self):
        both = enumerate(zip(self.labels, self.manifests, strict=True))
        return check([Part(i, *part) for i, part in both], tasks=self.tasks, routed=ROUTED)


def encoded(task, attempt, rows):
    """The labels of one attempt: its rows cut into blocks of one, each by a row's own partition."""
    counts = [0] * OUTPUTS
    labels = []
    for row in rows:
        output = row % OUTPUTS
        labels.append(Label("topic", output, task, attempt, counts[output], 1, 10, row))
        counts[output] += 1
    return labels


def routed(attempts, taken=None):
    """Route what the tasks sent; `taken[part][task]` picks the attempt that a part has got."""
    tasks = len(attempts)
    batch = Batch(tasks, [], [])
    for part in range(ROUTED):
        labels, manifests = [], []
        for task in range(tasks):
            which = taken[part][task] if taken else 0
            mine = [b for b in attempts[task][which] if b.partition % ROUTED == part]
            labels += mine
            manifests.append(manifest_of(task, which, mine))
        batch.labels.append(labels)
        batch.manifests.append(manifests)
    return batch


rows_of_tasks = st.lists(st.lists(st.integers(0, 999), max_size=8), min_size=1, max_size=4)


@given(rows_of_tasks)
def test_a_whole_batch_is_summed_up(rows):
    """Every output partition with its blocks in order of task and sequence."""
    attempts = [[encoded(task, 0, found)] for task, found in enumerate(rows)]
    summary = routed(attempts).check()
    assert isinstance(summary, Summary)
    assert summary.rows == sum(map(len, rows))
    assert summary.bytes == 10 * summary.rows
    for found in summary.partitions:
        mine = [row for task in rows for row in task if row % OUTPUTS == found.partition]
        assert found.digest == digest(mine)
        assert found.blocks == len(mine)


@given(rows_of_tasks, st.data())
def test_any_mixture_of_two_attempts_is_found(rows, data):
    """Unless every part got the same attempt of each task, the batch is refused."""
    seed = data.draw(st.integers(0, 99))
    attempts = []
    for task, found in enumerate(rows):
        again = random.Random(seed + task).sample(found, len(found))
        attempts.append([encoded(task, 0, found), encoded(task, 1, again)])
    pick = st.lists(st.integers(0, 1), min_size=len(rows), max_size=len(rows))
    taken = data.draw(st.lists(pick, min_size=ROUTED, max_size=ROUTED))
    found = routed(attempts, taken).check()
    assert isinstance(found, Fault) == (len(set(map(tuple, taken))) > 1)


@given(rows_of_tasks, st.data())
def test_any_damage_is_found(rows, data):
    """A block lost, doubled, moved, changed; a manifest lost or doubled; in any part."""
    batch = routed([[encoded(task, 0, found)] for task, found in enumerate(rows)])
    part = data.draw(st.integers(0, ROUTED - 1))
    labels, manifests = batch.labels[part], batch.manifests[part]
    damages = ["no manifest", "two manifests"] + (["lost", "doubled", "changed"] if labels else [])
    damage = data.draw(st.sampled_from(damages))
    at = data.draw(st.integers(0, len(labels or manifests) - 1))
    match damage:
        case "no manifest":
            del manifests[at % len(manifests)]
        case "two manifests":
            manifests.append(manifests[at % len(manifests)])
        case "lost":
            del labels[at]
        case "doubled":
            labels.insert(data.draw(st.integers(0, len(labels))), labels[at])
        case "changed":
            labels[at] = replace(labels[at], checksum=labels[at].checksum + 1)
    assert isinstance(batch.check(), Fault)


@given(rows_of_tasks, st.data())
def test_any_other_order_within_an_output_partition_is_found(rows, data):
    """Blocks of several output partitions may lie mixed; those of one keep their order."""
    batch = routed([[encoded(task, 0, found)] for task, found in enumerate(rows)])
    whole = batch.check()
    part = data.draw(st.integers(0, ROUTED - 1))
    before = list(batch.labels[part])
    batch.labels[part][:] = data.draw(st.permutations(before))

    def lanes(labels):
        return [[b for b in labels if b.partition == output] for output in range(OUTPUTS)]

    kept = lanes(before) == lanes(batch.labels[part])
    assert batch.check() == whole if kept else isinstance(batch.check(), Fault)


@pytest.mark.parametrize("tasks", [1, 3])
def test_fewer_or_more_tasks_than_expected_are_found(tasks):
    """Two tasks have reported; one more is missing, or one was not expected."""
    batch = routed([[encoded(0, 0, [1, 2])], [encoded(1, 0, [3])]])
    assert isinstance(replace(batch, tasks=tasks).check(), Fault)


def test_an_output_partition_in_two_parts_is_found():
    """It would have two senders."""
    one = [Label("topic", 0, 0, 0, 0, 1, 10, 1)]
    manifests = [manifest_of(0, 0, one)]
    parts = [Part(index, one, manifests) for index in range(2)]
    assert "two routed partitions" in check(parts, tasks=1, routed=2).reason


@pytest.mark.parametrize("indexes", [(), (0, 1), (0, 1, 1), (0, 1, 2, 3), (1, 2, 3)])
def test_a_routed_partition_too_few_or_too_many_is_found(indexes):
    """A partition that did not report may have held blocks."""
    parts = [Part(index, [], [manifest_of(0, 0, [])]) for index in indexes]
    assert "3 routed partitions are due" in check(parts, tasks=1, routed=3).reason


def test_blocks_of_the_old_attempt_beside_the_new_ones_manifest_are_found():
    """The same rows, the same checksums: the attempt alone tells."""
    batch = routed([[encoded(0, 0, [1, 2, 3])]])
    for labels in batch.labels:
        labels[:] = [replace(label, attempt=1) for label in labels]
    assert "was run again" in batch.check().reason


def test_with_counts_alone_a_mixture_passes_unnoticed():
    """Two rows change places between an attempt and its repetition: one is lost, one doubled."""
    first, again = encoded(0, 0, [0, 1]), encoded(0, 1, [1, 0])
    first = [replace(b, partition=i) for i, b in enumerate(first)]
    again = [replace(b, partition=i) for i, b in enumerate(again)]
    batch = routed([[first, again]], taken=[[0], [1], [0]])
    blocks = [label for labels in batch.labels for label in labels]
    by_count = [sum(b.rows for b in blocks if b.partition == output) for output in (0, 1)]
    assert by_count == [1, 1], "every count is right"
    assert [b.checksum for b in blocks] == [0, 0], "and row 1 is lost, row 0 doubled"
    assert isinstance(batch.check(), Fault)
