"""Batches of which a reader could see a part."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from twophase.verify.batches import NO_BATCH, Batches
from twophase.verify.looks import Look, Settled
from twophase.verify.seen import EXAMPLES_MAX, Numbers, Seen
from twophase.verify.verdict import Finding, Kind


def torn(
    seen: NDArray[np.bool_], batches: Batches, running: Seen | None, looks: Sequence[Look]
) -> Finding:
    """Return the batches that are torn in the end, or were at two settled looks or more.

    `seen` tells for each row of the input whether it is there in the end.
    """
    of_row = batches.of_row
    count = int(of_row.max(initial=NO_BATCH)) + 1
    planned = of_row != NO_BATCH
    rows = np.bincount(of_row[planned], minlength=count)
    there = np.bincount(of_row[planned & seen], minlength=count)
    found = {
        int(batch): f"{there[batch]} of {rows[batch]} rows in the end"
        for batch in np.flatnonzero((there > 0) & (there < rows))
    }
    if running is not None:
        for batch, spell_s in _part_shown(of_row, count, running, Settled.of(looks)).items():
            found.setdefault(batch, f"only a part of it was visible for {spell_s:.2f} s")
    texts = [f"batch {batch}: {found[batch]}" for batch in sorted(found)[:EXAMPLES_MAX]]
    return Finding(Kind.TORN, len(found), tuple(texts))


def _part_shown(of_row: Numbers, count: int, running: Seen, settled: Settled) -> dict[int, float]:
    """Return the batches of which two looks or more showed a part, and for how long at least."""
    looks = len(settled.times_s)
    first = np.full(len(of_row), looks, np.int32)
    for partition, places in running.partitions.items():
        known = places.numbers >= 0
        shown = settled.first_shown(partition, places.offsets[known])
        np.minimum.at(first, places.numbers[known], shown.astype(np.int32))
    planned = of_row != NO_BATCH
    begins, whole = np.full(count, looks), np.zeros(count, np.int64)
    np.minimum.at(begins, of_row[planned], first[planned])
    np.maximum.at(whole, of_row[planned], first[planned])
    # Looks `begins` to `whole` - 1 showed a part. One alone proves nothing: a commit may have been
    # asked for and carried out between the two questions that found no transaction being ended.
    return {
        int(batch): float(settled.times_s[whole[batch] - 1] - settled.times_s[begins[batch]])
        for batch in np.flatnonzero(whole - begins > 1)
    }
