"""What must be true of every history, whatever happened in it."""

from collections import defaultdict

from simulation.broker import PREPARING, S

from twophase.errors import (
    CheckpointBehind,
    MarkerMissing,
    MarkerUnreadable,
    OffsetsChanged,
    OwnedByAnother,
    RecoveryError,
)


def unfounded(history, error):
    """Why a refusal has no cause in what happened, or None where it has one."""
    if not isinstance(error, RecoveryError):
        return None
    done = history.tampering if history.tampered else None
    causes = {
        # A marker is missing where somebody deleted it, or where none could be written yet.
        MarkerMissing: done == "delete" or history.read_unfounded,
        MarkerUnreadable: done == "overwrite",
        OwnedByAnother: len(history.queries) > 1,
        CheckpointBehind: done == "roll back" or history.rivals,
        # Where a marker was deleted, the one that takes its place does not know the offsets of the
        # batch before; a driver that hung since then is refused by it.
        OffsetsChanged: done in {"roll back", "lose offsets"}
        or (done == "delete" and history.rivals),
    }
    if causes.get(type(error)):
        return None
    return f"refused without a cause: {error}"


def check_end(history):
    """Every batch once, whole and in order; nothing open; all there unless it was refused."""
    for query in history.queries:
        history.violations += _wrong_rows(history, query)
    query = history.queries[0]
    if not query.refused:
        history.violations += _missing_rows(history, query)
        broker = history.broker
        if broker.state in {S.ONGOING, *PREPARING}:
            history.violations.append(f"a transaction is left open: {broker.state}")


def _visible(history, owner):
    for partition, log in enumerate(history.broker.logs):
        for entry in log:
            if entry.state == "committed" and entry.batch[0] == owner:
                yield partition, entry


def _wrong_rows(history, query):
    seen = set()
    batches = defaultdict(set)
    reached = defaultdict(int)
    for partition, entry in _visible(history, query.owner):
        _, number, offsets = entry.batch
        if number < reached[partition]:
            yield f"batch {number} lies behind batch {reached[partition]}"
        reached[partition] = number
        for row in entry.rows:
            if row in seen:
                yield f"row {row} of batch {number} is there twice"
            seen.add(row)
            batches[number, offsets].add(row)
    for (number, offsets), rows in batches.items():
        if rows != _due(offsets):
            yield f"batch {number} ({offsets}) is not whole: {sorted(rows)}"
    for number, versions in query.finished.items():
        for offsets in versions:
            if not _due(offsets) <= seen:
                yield f"batch {number} ({offsets}) was reported as done and is not there"


def _missing_rows(history, query):
    last = max(query.commits, default=None)
    if last is None:
        yield "the healthy process has written nothing"
        return
    end = query.offsets[last][1]
    seen = {row for _, entry in _visible(history, query.owner) for row in entry.rows}
    if seen != set(range(end)):
        yield f"rows {sorted(seen ^ set(range(end)))[:9]} of {end} are lost or should not be there"


def _due(offsets):
    start, _, end = offsets.partition("-")
    return set(range(int(start), int(end)))
