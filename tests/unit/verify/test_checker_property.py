"""Whatever is planted at random is found, neither more nor less."""

import random
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from twophase.verify import sights
from twophase.verify.checker import check
from twophase.verify.rows import CORRUPT, STRANGE, Input
from twophase.verify.seen import Places, Seen

from .planting import BATCH_ROWS, PARTITIONS, Topic, counts


@given(
    seed=st.integers(0, 2**32),
    lost=st.integers(0, 30),
    doubled=st.integers(0, 30),
    strange=st.integers(0, 5),
    corrupt=st.integers(0, 10),
)
def test_planted_counts_are_found(seed, lost, doubled, strange, corrupt):
    """Rows deleted, doubled, damaged and added at random places: each count comes out."""
    topic, chance = Topic(), random.Random(seed)
    chosen = chance.sample(range(120), lost + doubled + corrupt)
    gone, twice = chosen[:lost], chosen[lost : lost + doubled]
    damaged = chosen[lost + doubled :]
    for number in twice:
        topic.double(number, after=chance.randrange(3))
    for number in damaged:
        topic.corrupt(number)
    for number in gone:
        topic.lose(number)
    for _ in range(strange):
        topic.add_strange(partition=chance.randrange(PARTITIONS))
    missing = Counter(number // BATCH_ROWS for number in (*gone, *damaged))
    expected = {
        "lost": lost + corrupt,
        "duplicate": doubled,
        "torn": sum(0 < count < BATCH_ROWS for count in missing.values()),
        "corrupt": corrupt,
        "strange": strange,
    }
    verdict = topic.check()
    assert counts(verdict) == {kind: count for kind, count in expected.items() if count}
    assert verdict.ok == (not any(expected.values()))
    assert verdict.rows_out == 120 - lost + doubled + strange


def naive(of, partitions):
    """The same question, answered row by row: how many duplicates, how many out of order."""
    rows = [(p, n) for p, numbers in partitions.items() for n in numbers if n >= 0]
    homes = {}
    for key in {n % of.keys for _, n in rows}:
        votes = Counter(p for p, n in rows if n % of.keys == key)
        homes[key] = min(p for p in votes if votes[p] == max(votes.values()))
    at_home = [n for p, n in rows if homes[n % of.keys] == p]
    away = [n for p, n in rows if homes[n % of.keys] != p]
    seen, latest, late = set(), {}, 0
    for number in at_home:
        if number not in seen:
            seen.add(number)
            late += number < latest.get(number % of.keys, -1)
            latest[number % of.keys] = max(number, latest.get(number % of.keys, -1))
    strays = set(away) - seen
    return len(rows) - len(seen | strays), late + len(strays)


@given(
    keys=st.integers(1, 6),
    chunk=st.integers(1, 7),
    partitions=st.lists(st.lists(st.integers(-2, 29), max_size=30), min_size=1, max_size=3),
)
def test_any_rows_in_any_order_are_counted_as_one_by_one(keys, chunk, partitions):
    """The columns say what a plain loop says, however the rows are cut into chunks."""
    of, logs = Input("any", 30, keys), dict(enumerate(partitions))
    seen = Seen(
        {p: Places(np.arange(len(log)), np.array(log, np.int32)) for p, log in logs.items()},
        {CORRUPT: (), STRANGE: ()},
    )
    whole, sights._CHUNK_ROWS = sights._CHUNK_ROWS, chunk
    try:
        verdict = check("sink", of, seen, running=None, batches=None, left_open=())
    finally:
        sights._CHUNK_ROWS = whole
    every = [number for log in logs.values() for number in log]
    duplicates, late = naive(of, logs)
    expected = {
        "lost": 30 - len({number for number in every if number >= 0}),
        "duplicate": duplicates,
        "reordered": late,
        "corrupt": every.count(CORRUPT),
        "strange": every.count(STRANGE),
    }
    assert counts(verdict) == {kind: count for kind, count in expected.items() if count}
