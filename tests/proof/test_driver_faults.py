"""The driver killed with -9 around every step, and frozen while another one takes over."""

import pytest

from .support_trials import until

# Where the driver dies, in which batch at the earliest; each run goes on where the last one fell.
OWNING = [
    (when, step, 0)
    for step in ("describe_last", "own", "read_marker")
    for when in ("before", "after")
]
WRITING = [
    ("before", "prepare", 0),
    ("after", "prepare", 1),
    ("before", "send", 2),
    ("after", "send", 3),
    ("before", "write_marker", 4),
    ("after", "write_marker", 5),
    ("before", "commit", 6),
    ("after", "commit", 7),
]
# A new sink writes its first marker in a transaction of its own, at the first batch.
FOUNDING = [(when, step, 0) for step in ("write_marker", "commit") for when in ("before", "after")]


def die_in_turn(trial, deaths):
    """Let the query die so often, every second time as a whole and else Python alone.

    The JVM of a driver whose Python died alone is not waited for: the next driver starts beside it.
    """
    drivers = [trial.driver, trial.another_driver("other driver")]
    for at, where in enumerate(deaths):
        driver = drivers[at % 2]
        driver.start(faults=[[*where, "die" if at % 4 in {1, 2} else "die whole"]])
        until(lambda driver=driver: driver.code is not None, f"death {where}")
        assert driver.code == -9, f"{where}: {driver.last_words()}"


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("path", "deaths"),
    [
        ("routed", OWNING + WRITING),
        ("driver", WRITING),
        pytest.param("routed", FOUNDING + OWNING + WRITING, marks=pytest.mark.long),
    ],
    ids=["routed", "driver", "new"],
)
def test_killed_before_and_after_every_step(path, deaths, broker, open_trial):
    """Expected: the next start aborts, repeats or skips the batch; every row is there once."""
    trial = open_trial(broker, rows=2_700, options={"path": path})
    die_in_turn(trial, deaths)
    trial.finish()
    assert ("skipped" in {outcome for _, outcome in trial.outcomes()}) is True
    trial.check()
