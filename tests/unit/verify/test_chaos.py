"""In which order faults come."""

import random
from collections import Counter
from itertools import islice

from twophase.verify.chaos import _drawn

KINDS = ("killed", "frozen", "broker killed", "broker paused")


def drawn(seed, count, first=()):
    return list(islice(_drawn(random.Random(seed), KINDS, first), count))


def test_each_comes_as_often_as_the_others():
    """Whatever comes first, and in another order for another seed."""
    for first in ((), ("broker killed", "killed")):
        for bags in (1, 2, 5):
            assert set(Counter(drawn(7, bags * len(KINDS), first)).values()) == {bags}
    assert drawn(1, 40) == drawn(1, 40) != drawn(2, 40)


def test_what_is_first_comes_before_the_others():
    """A run too short for all of them has at least these."""
    orders = {tuple(drawn(seed, 2, ("killed", "broker killed"))) for seed in range(20)}
    assert orders == {("killed", "broker killed"), ("broker killed", "killed")}
    assert drawn(3, 3, ("frozen",))[0] == "frozen"
