"""Kafka in task scope whose driver is killed with -9 at each of its steps: each row once."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

# A driver that is killed has this many batches; batch 0 was written by one before it.
BATCHES = 3
# What the loop does in two batches: the first as a driver that starts, the second as one that goes
# on, and trims.
CALLS = {
    "create epoch": 1,
    "own twophase": 1,
    "create batch-000000000001-0000": 1,
    "open": 2,
    "begin": 6,
    "write": 6,
    "prepare": 6,
    "confirm": 2,
    "create batch-000000000001-0001": 1,
    "create batch-000000000002-0000": 1,
    "commit": 4,
    "create done-000000000001-0001": 1,
    "create done-000000000002-0000": 1,
    "recover": 3,
    "delete epoch": 1,
    "delete batch-000000000000-0000": 1,
    "delete batch-000000000000-0001": 1,
    "delete done-000000000000-0001": 1,
    "note": 2,
}


def dies(loop, at, *, after, where):
    """A driver dies at a step; the next one ends well, and writes one batch more."""
    code, said = loop.run(BATCHES, at=at, after=after)
    assert code == -9, (where, said)
    code, said = loop.run(BATCHES + 1)
    assert code == 0, (where, said)
    loop.check(BATCHES + 1, where)


def test_killed_after_the_decision(kafka, make_loop):
    """Nothing of it is committed; the next driver does that."""
    name = "create batch-000000000001-0001"
    dies(make_loop(kafka), name, after=True, where=name)


def dies_everywhere(broker, make_loop, chosen):
    """Kill a driver before and after each of the chosen steps, two at a time."""
    steps = make_loop(broker).steps(BATCHES)
    counts = Counter(steps)
    assert {name: counts[name] for name in CALLS} == CALLS
    cases = [
        (at, after)
        for at, name in enumerate(steps, 1)
        for after in (False, True)
        if chosen(at, name)
    ]

    def one(case):
        at, after = case
        where = f"{'after' if after else 'before'} {at}: {steps[at - 1]}"
        dies(make_loop(broker), at, after=after, where=where)
        return where

    with ThreadPoolExecutor(2) as pool:
        done = set(pool.map(one, cases))
    assert len(done) == len(cases) > 0


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_killed_at_each_step(kafka, make_loop):
    """Calls to the store, its requests to the brokers, and the files of the log."""
    dies_everywhere(kafka, make_loop, lambda _at, _name: True)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_killed_at_some_steps_of_version_1(kafka39, make_loop):
    """Every fifth, on Kafka 3.9.2."""
    dies_everywhere(kafka39, make_loop, lambda at, _name: at % 5 == 0)
