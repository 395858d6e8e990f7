"""The faults that a user may allow, by name: what each does, and where it can be done at all."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from twophase.errors import ConfigurationError
from twophase.options import nearest
from twophase.verify.chaos import IN_BATCH
from twophase.verify.processes import can_look

KILL_DRIVER: Final = "kill-driver"
KILL_EXECUTOR: Final = "kill-executor"
PAUSE: Final = "pause"
KILL_BROKER: Final = "kill-broker"
NAMES: Final = (KILL_DRIVER, KILL_EXECUTOR, PAUSE, KILL_BROKER)
_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    KILL_DRIVER: (IN_BATCH, "Python alone killed"),
    KILL_EXECUTOR: ("executor killed",),
    PAUSE: ("driver frozen",),
    KILL_BROKER: ("broker killed",),
}
# Comes along with a name, and does not count for it: a broker that was stopped was not killed.
_ALONG: Final[Mapping[str, tuple[str, ...]]] = {KILL_BROKER: ("broker paused",)}
_LONG_PAUSE: Final = "driver frozen past the timeout"
# A freeze past the timeout must leave most of the time to the rest.
_LONG_PAUSE_SHARE: Final = 4
LOCAL: Final = "local[2]"
# Two executors of one core, each in a JVM of its own below the driver.
LOCAL_CLUSTER: Final = "local-cluster[2,1,1024]"
_CLUSTER: Final = re.compile(r"local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*(?P<mb>\d+)\s*\]")
_EXECUTOR_MB: Final = 768
# Spark refuses an executor with less than 450 MB.
_LEAST_MB: Final = 512


def read_names(text: str) -> tuple[str, ...]:
    """Return the names in a list with commas, or refuse what is none."""
    found = [name.strip() for name in text.split(",") if name.strip()]
    for name in found:
        if name not in NAMES:
            guess = nearest(name, NAMES)
            hint = f"did you mean {guess}? " if guess else ""
            raise ConfigurationError(
                f"--faults has {name!r}; {hint}allowed are {', '.join(NAMES)}, with commas"
            )
    if not found:
        raise ConfigurationError(
            f"--faults names none, and without faults nothing is proved; allowed are "
            f"{', '.join(NAMES)}, with commas"
        )
    return tuple(dict.fromkeys(found))


def master_for(names: Sequence[str], master: str | None, *, embedded: bool) -> str:
    """Return where Spark runs, or refuse a fault that cannot be done there."""
    if KILL_BROKER in names and not embedded:
        raise ConfigurationError(
            f"--faults {KILL_BROKER} is for --embedded only: the brokers of a cluster that others "
            "use are not killed; leave it out, or verify on an embedded cluster"
        )
    executor_conf(master or LOCAL)
    if KILL_EXECUTOR not in names:
        return master or LOCAL
    if not can_look():
        raise ConfigurationError(
            f"--faults {KILL_EXECUTOR} finds executors by /proc, which this system has not; leave "
            "it out"
        )
    if master is not None and not master.startswith("local-cluster["):
        raise ConfigurationError(
            f"--faults {KILL_EXECUTOR} cannot be done with --master {master}: its executors are no "
            f"processes below the driver on this machine; leave it out, or give {LOCAL_CLUSTER}"
        )
    return master or LOCAL_CLUSTER


def executor_conf(master: str) -> dict[str, str]:
    """Return the settings with which the workers of a local-cluster have room for executors.

    Empty for any other master. One without room is refused: Spark would wait for executors for
    ever.
    """
    if not master.startswith("local-cluster["):
        return {}
    found = _CLUSTER.fullmatch(master)
    if found is None or int(found["mb"]) < _LEAST_MB:
        raise ConfigurationError(
            f"--master {master} starts no executors; write local-cluster[EXECUTORS,CORES,MB] with "
            f"{_LEAST_MB} MB or more, such as {LOCAL_CLUSTER}"
        )
    return {"spark.executor.memory": f"{min(_EXECUTOR_MB, int(found['mb']))}m"}


def kinds_of(names: Sequence[str], seconds: float, timeout_s: float) -> tuple[str, ...]:
    """Return the faults behind the names; a freeze past the timeout only where there is time."""
    kinds = tuple(kind for name in names for kind in (*_KINDS[name], *_ALONG.get(name, ())))
    long = PAUSE in names and seconds >= _LONG_PAUSE_SHARE * timeout_s
    return (*kinds, _LONG_PAUSE) if long else kinds


def first_of(names: Sequence[str]) -> tuple[str, ...]:
    """Return one fault for each name, which a short run has before any other."""
    return tuple(_KINDS[name][0] for name in names)


def by_name(names: Sequence[str], counts: Mapping[str, int]) -> dict[str, int]:
    """Return how often each allowed fault has come."""
    behind = {name: _KINDS[name] + ((_LONG_PAUSE,) if name == PAUSE else ()) for name in names}
    return {name: sum(counts.get(kind, 0) for kind in kinds) for name, kinds in behind.items()}
