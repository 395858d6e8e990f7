"""A simulated Spark: a checkpoint, encode tasks that may run again, and blocks with labels."""

from dataclasses import dataclass, field

from twophase.commit.manifest import Label, Part, check, manifest_of

TASKS = 2
PARTITIONS = 2
BLOCK_ROWS = 2


class RunEndedError(Exception):
    """Spark ended the run of the query for a reason of its own."""


@dataclass
class Query:
    """A query and its checkpoint; its rows are the numbers of its source, from 0."""

    owner: str
    source_end: int = 0
    offsets: dict = field(default_factory=dict)
    commits: set = field(default_factory=set)
    finished: dict = field(default_factory=dict)
    refused: list = field(default_factory=list)

    def next_batch(self):
        """The batch that a run begins with: the last one again, or the one after it."""
        if not self.offsets:
            return 0
        last = max(self.offsets)
        return last + 1 if last in self.commits else last

    def plan(self, number, run_id, rng):
        """Write offsets/N, which nobody has written yet."""
        start = self.offsets[number - 1][1] if number - 1 in self.offsets else 0
        self.source_end += rng.choice((0, 1, 3, 6))
        self.offsets[number] = (start, max(start, self.source_end), run_id)

    def hash_of(self, number):
        """What the marker holds of offsets/N."""
        start, end, _ = self.offsets[number]
        return f"{start}-{end}"


@dataclass(frozen=True)
class Block:
    """Rows of one output partition, and what is known of them."""

    label: Label
    rows: tuple


def encode(rows, task, attempt):
    """The blocks of one attempt; the input has no order, so another attempt has other blocks."""
    blocks = []
    for partition in range(PARTITIONS):
        mine = [r for r in rows if r % TASKS == task and (r // TASKS + attempt) % 2 == partition]
        for sequence, at in enumerate(range(0, len(mine), BLOCK_ROWS)):
            cut = tuple(mine[at : at + BLOCK_ROWS])
            checksum = sum((row + 1) * 31**i for i, row in enumerate(cut))
            label = Label(
                "topic", partition, task, attempt, sequence, len(cut), 8 * len(cut), checksum
            )
            blocks.append(Block(label, cut))
    return blocks


@dataclass
class Materialised:
    """The routed partitions of one batch, one for each output partition."""

    blocks: list
    manifests: list

    def check(self):
        """What the driver does before it sends."""
        parts = [
            Part(index, [block.label for block in blocks], self.manifests[index])
            for index, blocks in enumerate(self.blocks)
        ]
        return check(parts, tasks=TASKS, routed=PARTITIONS)


def materialise(rows, attempt, *, rerun=None):
    """Encode and route; task `rerun` ran again after partition 0 had taken its first blocks."""
    found = Materialised([[] for _ in range(PARTITIONS)], [[] for _ in range(PARTITIONS)])
    for task in range(TASKS):
        for partition in range(PARTITIONS):
            which = attempt + 1 if task == rerun and partition else attempt
            mine = [b for b in encode(rows, task, which) if b.label.partition == partition]
            found.blocks[partition] += mine
            labels = [block.label for block in mine]
            found.manifests[partition].append(manifest_of(task, which, labels))
    return found
