"""Seeded histories of crashes, lost answers, late repeats, timeouts, rivals and tampering."""

import time

import pytest
from simulation.history import History
from simulation.seeds import DEFAULT_SEEDS, LONG_SEEDS, play_all, play_in_processes, told


def test_every_batch_is_there_once_whole_and_in_order():
    """Or it was refused for a cause; and nothing stays open, and no older owner comes back."""
    since_s = time.monotonic()
    counts, failures = play_all(DEFAULT_SEEDS)
    print(told(DEFAULT_SEEDS, counts, since_s))
    assert not failures, failures
    happened = {"Fenced", "StoreUnavailable", "MarkerMissing", "MarkerUnreadable", "run ended"}
    happened |= {"OwnedByAnother", "CheckpointBehind", "OffsetsChanged", "batches", "interrupted"}
    assert happened <= set(counts), "the histories have become tame"
    assert counts["batches"] > 3 * len(DEFAULT_SEEDS), "the histories write too little"


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_every_batch_is_there_once_whole_and_in_order_for_long():
    """The same, a hundred thousand times."""
    since_s = time.monotonic()
    counts, failures = play_in_processes(LONG_SEEDS)
    print(told(LONG_SEEDS, counts, since_s))
    assert not failures, failures


def test_a_seed_replays_exactly():
    """Whatever a seed shows, it shows again: every request, every answer, every death."""
    for seed in range(40):
        assert History(seed).play().trace == History(seed).play().trace, f"seed {seed}"


def test_seeds_differ():
    """A seed is a history of its own."""
    assert len({str(History(seed).play().trace) for seed in range(40)}) == 40
