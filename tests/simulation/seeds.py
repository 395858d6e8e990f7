"""Which histories are played, in one process or many, and how a failing one is told."""

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

from simulation.history import History

DEFAULT_SEEDS = range(2_000)
LONG_SEEDS = range(100_000)


@contextmanager
def untraced():
    """Measure no coverage, which takes twice the time; a replay of a few seeds measures it."""
    tracing = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(tracing)


def first_harm(parts, harm, seeds=DEFAULT_SEEDS):
    """Return the first seed whose history shows a harm, and what it shows; None where none does."""
    with untraced():
        for seed in seeds:
            for text in History(seed, parts).play().violations:
                if re.search(harm, text):
                    return seed, text
    return None


def play_all(seeds):
    """Play histories; return what happened in them, and the first ones that went wrong."""
    with untraced():
        return _played(seeds)


def _played(seeds):
    counts = Counter()
    failures = []
    for seed in seeds:
        history = History(seed).play()
        counts.update(history.counts)
        counts["steps"] += len(history.trace)
        counts["batches"] += sum(len(query.commits) for query in history.queries)
        if history.violations and len(failures) < 5:
            failures.append(f"seed {seed}: {history.violations[:3]}")
    return counts, failures


def play_in_processes(seeds):
    """The same, with one process for each core."""
    number = len(os.sched_getaffinity(0))
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-m", "simulation.seeds", str(seeds.stop), str(number)]
    workers = [
        subprocess.Popen([*command, str(index)], env=environment, stdout=subprocess.PIPE, text=True)
        for index in range(number)
    ]
    counts, failures = Counter(), []
    for worker in workers:
        text, _ = worker.communicate()
        if worker.returncode:
            failures.append(f"a worker ended with {worker.returncode}")
            continue
        found = json.loads(text)
        counts.update(found["counts"])
        failures += found["failures"]
    return counts, failures


def told(seeds, counts, since_s):
    """One line about what was played, and how fast."""
    rate = len(seeds) / (time.monotonic() - since_s)
    return f"{len(seeds)} histories, {rate:.0f} a second: {dict(counts.most_common())}"


if __name__ == "__main__":
    stop, step, first = map(int, sys.argv[1:])
    found_counts, found_failures = play_all(range(first, stop, step))
    print(json.dumps({"counts": found_counts, "failures": found_failures}))
