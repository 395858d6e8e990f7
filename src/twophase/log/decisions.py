"""The decision log of one sink: epochs, decisions, what is done, what is lost.

    epoch-00000003              the third driver of this sink has started
    batch-000000000007-0000     the decision about slot 0 of batch 7
    done-000000000007           every committable of batch 7 is committed
    lost-000000000007-00012     task 12 of batch 7 was decided and is lost, by the user's choice

Files are created once and never changed. A decision counts from the moment its file is there.
"""

import logging
import re
from dataclasses import dataclass
from typing import Any, Final

from twophase.errors import StoreUnavailable
from twophase.log.decision import Decision, Prepared
from twophase.log.folder import Folder
from twophase.log.seal import seal, unseal

_log = logging.getLogger("twophase")

_EPOCH: Final = re.compile(r"epoch-(\d{8})")
_BATCH: Final = re.compile(r"batch-(\d{12})-(\d{4})")
_DONE: Final = re.compile(r"done-(\d{12})")
_TRIES_MAX: Final = 100
# Of what is done, the last batches stay for people to look at.
_KEPT: Final = 2


@dataclass(frozen=True, slots=True)
class Look:
    """What the log held at one moment."""

    decisions: tuple[Decision, ...]
    done: frozenset[int]

    @property
    def undone(self) -> Decision | None:
        """The latest decision, if it is to commit and perhaps not all of that is done.

        An older one without the note that it is done was made by a driver that had been replaced,
        in a slot that was trimmed: the next batch is decided only once the last one is done.
        """
        latest = max((each for each in self.decisions if each.commits), key=_place, default=None)
        return latest if latest is not None and latest.batch not in self.done else None

    def of(self, batch: int) -> tuple[Decision, ...]:
        """Return the decisions about one batch by slot."""
        return tuple(each for each in self.decisions if each.batch == batch)


class DecisionLog:
    """The files of one sink in a folder of its own."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    @property
    def root(self) -> str:
        """Where it lies, for people."""
        return self._folder.root

    def take_epoch(self, about: dict[str, Any]) -> int:
        """Return a number above that of every driver before; nobody else gets it."""
        for _ in range(_TRIES_MAX):
            epoch = max(self._epochs(), default=0) + 1
            if not self._folder.create(f"epoch-{epoch:08d}", seal(about)):
                continue
            # Whoever looked long ago may have made a file anew that was taken and trimmed since.
            taken = self._epochs()
            if max(taken) == epoch:
                for old in taken[:-1]:
                    self._forget(f"epoch-{old:08d}")
                return epoch
        raise StoreUnavailable(
            f"{_TRIES_MAX} times another driver has started in {self.root} at the same moment"
        )

    def look(self) -> Look:
        """Return all decisions, by batch and slot, as they were at one moment."""
        for _ in range(_TRIES_MAX):
            names = sorted(self._folder.names())
            done = frozenset(self._done(name) for name in names if _DONE.fullmatch(name))
            read = [self._decision(name) for name in names if _BATCH.fullmatch(name)]
            found = tuple(each for each in read if each is not None)
            # Another driver trims meanwhile: what is left of an older moment would look like the
            # latest.
            if len(found) == len(read):
                return Look(found, done)
        raise StoreUnavailable(f"{_TRIES_MAX} times {self.root} has changed while it was read")

    def decide(self, decision: Decision) -> bool:
        """Make a decision for ever; False where one about the slot is there already."""
        name = _batch_name(decision.batch, decision.slot)
        return self._folder.create(name, seal(decision.to_content()))

    def is_latest(self, batch: int) -> bool:
        """Whether nobody has come to a later batch."""
        found = map(_BATCH.fullmatch, self._folder.names())
        return all(int(match[1]) <= batch for match in found if match)

    def is_done(self, batch: int) -> bool:
        """Whether somebody has committed all of the batch."""
        return _done_name(batch) in self._folder.names()

    def record_done(self, batch: int) -> None:
        """Say that every committable of the batch is committed, or recorded as lost."""
        self._folder.create(_done_name(batch), seal({"batch": batch}))

    def record_lost(self, decision: Decision, lost: Prepared, why: str) -> str:
        """Leave for ever what is missing in the store; return the file's name."""
        name = f"lost-{decision.batch:012d}-{lost.task:05d}"
        content = {
            "batch": decision.batch,
            "owner": decision.owner,
            "task": lost.task,
            "name": lost.name,
            "rows": lost.rows,
            "committable": lost.committable,
            "why": why,
        }
        self._folder.create(name, seal(content))
        return f"{self.root}/{name}"

    def trim(self, batch: int) -> None:
        """Delete what nobody asks for once this batch is done; what cannot be deleted stays."""
        for name in sorted(self._folder.names()):
            found = _BATCH.fullmatch(name) or _DONE.fullmatch(name)
            if found and int(found[1]) <= batch - _KEPT:
                self._forget(name)

    def _epochs(self) -> list[int]:
        found = map(_EPOCH.fullmatch, self._folder.names())
        return sorted(int(match[1]) for match in found if match)

    def _decision(self, name: str) -> Decision | None:
        place = f"{self.root}/{name}"
        data = self._folder.read(name)
        return None if data is None else Decision.from_content(unseal(data, place), place)

    def _done(self, name: str) -> int:
        data = self._folder.read(name)
        if data is not None:
            unseal(data, f"{self.root}/{name}")
        return int(name.removeprefix("done-"))

    def _forget(self, name: str) -> None:
        try:
            self._folder.delete(name)
        except Exception as error:  # noqa: BLE001 - of no use any more, and no harm either
            _log.warning("%s/%s could not be deleted: %s", self.root, name, error)


def _place(decision: Decision) -> tuple[int, int]:
    return decision.batch, decision.slot


def _batch_name(batch: int, slot: int) -> str:
    return f"batch-{batch:012d}-{slot:04d}"


def _done_name(batch: int) -> str:
    return f"done-{batch:012d}"
