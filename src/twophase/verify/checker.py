"""The checker: from the input and from what readers saw to a verdict; pure, in bounded memory.

lost        a row of the input that the final reader did not see
duplicate   each further sight of a row that the final reader has seen already
torn        a batch of whose rows the final reader saw some and not all, or of which the broker
            showed some and not all at two settled looks or more (looks.py); looks count only where
            the sink promises a batch at once, as task scope does not
reordered   a row first seen after a later row of its key, or away from the partition of its key
vanished    a row that the running reader saw, and the final one did not at that place: it was shown
            before it was decided
overtaken   a row that the final reader saw, and the running one did not at that place though it had
            gone past: it was shown too late
corrupt     a row that is recognised and not whole
strange     a row that is not of the input
left open   a transaction of the sink that is still open

No client can see whether a place belongs to an aborted transaction, so `vanished` is what can be
known of rows that were aborted and seen. Where such a row stays visible, it is a duplicate, because
its batch was written again, or it is the only sight of the row, and then nothing is wrong with it.

Memory: twelve bytes for each row of each reader, nine for each row of the input, twenty for each
key, and what a million rows take to be sorted.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from twophase.verify.batches import Batches
from twophase.verify.looks import Look
from twophase.verify.rows import CORRUPT, STRANGE, Input
from twophase.verify.seen import EXAMPLES_MAX, Places, Seen
from twophase.verify.sights import Flags, Sights
from twophase.verify.torn import torn
from twophase.verify.verdict import Finding, Kind, Verdict

_NOWHERE: Final = Places(np.empty(0, np.int64), np.empty(0, np.int32))


@dataclass(frozen=True, slots=True, eq=False)
class Running:
    """What the reader that ran all along saw; `reached` is the offset that it reads next."""

    rows: Seen
    reached: Mapping[int, int]
    looks: Sequence[Look]
    longest_stall_s: float


def check(
    sink: str,
    of: Input,
    final: Seen,
    *,
    running: Running | None,
    batches: Batches | None,
    left_open: Sequence[str] | None,
    at_once: bool = True,
) -> Verdict:
    """Return what is wrong with what a sink wrote.

    Evidence that is None is not had: what needs it counts as not checked, never as clean. Without
    `running`, or where the sink does not promise a batch `at_once`, it is torn only if it is so in
    the end.
    """
    sights = Sights(of, final)
    return Verdict(
        sink=sink,
        rows_in=of.rows,
        rows_out=final.rows,
        longest_stall_s=None if running is None else running.longest_stall_s,
        findings=(
            _lost(of, sights.seen),
            sights.duplicates(),
            _torn(sights.seen, batches, running if at_once else None),
            sights.reordered(),
            *_compared(of, final, running),
            Finding(Kind.CORRUPT, final.count(CORRUPT), final.examples[CORRUPT]),
            Finding(Kind.STRANGE, final.count(STRANGE), final.examples[STRANGE]),
            _left_open(left_open),
        ),
    )


def _lost(of: Input, seen: Flags) -> Finding:
    lost = np.flatnonzero(~seen)
    return Finding(Kind.LOST, len(lost), tuple(map(of.named, lost[:EXAMPLES_MAX].tolist())))


def _torn(seen: Flags, batches: Batches | None, running: Running | None) -> Finding:
    if batches is None:
        return Finding(Kind.TORN, None)
    if running is None:
        return torn(seen, batches, None, ())
    return torn(seen, batches, running.rows, running.looks)


def _left_open(left_open: Sequence[str] | None) -> Finding:
    if left_open is None:
        return Finding(Kind.LEFT_OPEN, None)
    return Finding(Kind.LEFT_OPEN, len(left_open), tuple(left_open[:EXAMPLES_MAX]))


def _compared(of: Input, final: Seen, running: Running | None) -> Iterator[Finding]:
    """Compare place by place what the running reader saw with what is there in the end."""
    if running is None:
        yield Finding(Kind.VANISHED, None)
        yield Finding(Kind.OVERTAKEN, None)
        return
    vanished, overtaken = _Sum(of, Kind.VANISHED), _Sum(of, Kind.OVERTAKEN)
    for partition in sorted({*final.partitions, *running.rows.partitions}):
        last = final.partitions.get(partition, _NOWHERE)
        along = running.rows.partitions.get(partition, _NOWHERE)
        vanished.add(partition, along, ~_among(along, last))
        past = last.offsets < running.reached.get(partition, 0)
        overtaken.add(partition, last, past & ~_among(last, along))
    yield vanished.finding()
    yield overtaken.finding()


def _among(rows: Places, others: Places) -> Flags:
    """Tell which rows are among the others: same offset, same row."""
    at = np.searchsorted(others.offsets, rows.offsets)
    found: Flags = at < len(others.offsets)
    found[found] &= others.offsets[at[found]] == rows.offsets[found]
    found[found] &= others.numbers[at[found]] == rows.numbers[found]
    return found


class _Sum:
    """Counts places over all partitions and names the first."""

    def __init__(self, of: Input, kind: Kind) -> None:
        self._input, self._kind = of, kind
        self._count = 0
        self._texts: list[str] = []

    def add(self, partition: int, places: Places, flags: Flags) -> None:
        """Count the flagged places of a partition."""
        self._count += int(flags.sum())
        for at in np.flatnonzero(flags)[: EXAMPLES_MAX - len(self._texts)]:
            number = int(places.numbers[at])
            name = self._input.named(number) if number >= 0 else "a row not of the input"
            self._texts.append(f"{name} at {partition}:{places.offsets[at]}")

    def finding(self) -> Finding:
        """Return the sum."""
        return Finding(self._kind, self._count, tuple(self._texts))
