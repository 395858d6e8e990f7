"""The decision log of one sink: epochs, decisions, what is done, what is lost.

    epoch-1763300000            a driver of this sink has started
    batch-000000000007-0000     the decision about slot 0 of batch 7
    done-000000000007-0000      every committable of that decision is committed
    lost-000000000007-00012-1763300000
                                task 12 of batch 7 was decided by that driver and is lost, by the
                                user's choice, and which others were committed by then; the epoch
                                does not come again as long as this stays

Files are created once and never changed. A decision counts from the moment its file is there, and
so does what is recorded with a loss: the store may forget what became of the batch, and is not
asked again.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from twophase.errors import LogCorrupt, StoreUnavailable
from twophase.log.decision import Decision, Prepared
from twophase.log.folder import Folder
from twophase.log.seal import seal, unseal

_log = logging.getLogger("twophase")

_EPOCH: Final = re.compile(r"epoch-(?P<epoch>\d{10})")
_BATCH: Final = re.compile(r"batch-(\d{12})-(\d{4,})")
_DONE: Final = re.compile(r"done-(\d{12})-(\d{4,})")
_LOST: Final = re.compile(r"lost-(\d{12})-(\d{5,})-(?P<epoch>\d{10})")
_TRIES_MAX: Final = 100
# Of what is done, the last batches stay for people to look at.
_KEPT: Final = 2


@dataclass(frozen=True, slots=True)
class Look:
    """What the log held at one moment."""

    decisions: tuple[Decision, ...]
    done: frozenset[tuple[int, int]]

    @property
    def undone(self) -> Decision | None:
        """The decision to commit of the latest batch, if perhaps not all of it is done.

        An older one without the note that it is done was made by a driver that had been replaced,
        in a slot that was trimmed: nobody comes to a batch, not even to make a slot of it void,
        before the last one is done.
        """
        latest = max((each.batch for each in self.decisions), default=-1)
        for each in self.of(latest):
            if each.commits and place_of(each) not in self.done:
                return each
        return None

    def of(self, batch: int) -> tuple[Decision, ...]:
        """Return the decisions about one batch by slot."""
        return tuple(each for each in self.decisions if each.batch == batch)


@dataclass(frozen=True, slots=True)
class Recorded:
    """What is certain of a decision: why which tasks are lost, and which ones are committed.

    The latter as far as they were when a loss was recorded.
    """

    lost: Mapping[int, str] = field(default_factory=dict)
    committed: frozenset[int] = frozenset()


class DecisionLog:
    """The files of one sink in a folder of its own."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    @property
    def root(self) -> str:
        """Where it lies, for people."""
        return self._folder.root

    def take_epoch(self, about: dict[str, Any], now_s: int) -> int:
        """Return a number above that of every driver before; nobody else gets it.

        No lower than `now_s`, so that the names of attempts do not come again with a new log.
        """
        self._check_notes()
        for _ in range(_TRIES_MAX):
            epoch = max([now_s, *(each + 1 for each in self._epochs(_EPOCH, _LOST)), 1])
            if not self._folder.create(f"epoch-{epoch:010d}", seal(about)):
                continue
            # Whoever looked long ago may have made a file anew that was taken and trimmed since.
            taken = self._epochs(_EPOCH)
            if max(taken) == epoch:
                for old in taken[:-1]:
                    self._forget(f"epoch-{old:010d}")
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
        """Make a decision for ever; False where another about the slot is there already."""
        name, data = _batch_name(decision), seal(decision.to_content())
        # A file system that asks again after a lost answer finds what it has made itself.
        return self._folder.create(name, data) or self._folder.read(name) == data

    def is_latest(self, batch: int) -> bool:
        """Whether nobody has come to a later batch."""
        found = map(_BATCH.fullmatch, self._folder.names())
        return all(int(match[1]) <= batch for match in found if match)

    def is_done(self, decision: Decision) -> bool:
        """Whether somebody has committed all of it."""
        return _done_name(decision) in self._folder.names()

    def record_done(self, decision: Decision) -> None:
        """Say that every committable of the decision is committed, or recorded as lost."""
        self._folder.create(_done_name(decision), seal({"batch": decision.batch}))

    def record_lost(
        self, decision: Decision, lost: Prepared, why: str, committed: Sequence[int] = ()
    ) -> str:
        """Leave for ever what is missing, beside these tasks' rows; return the file's name."""
        name = _lost_name(decision, lost)
        content = {**_loss(decision, lost), "why": why, "committed": list(committed)}
        if not self._folder.create(name, seal(content)):
            # An earlier start has recorded it, and did not come to the end of the batch; the store
            # may say by other words why, and more may be committed by now.
            self._record(decision, lost)
        return f"{self.root}/{name}"

    def recorded(self, decision: Decision) -> Recorded:
        """Return what the records of losses say of this very decision."""
        names = set(self._folder.names())
        prepared = decision.prepared or ()
        lost = [each for each in prepared if _lost_name(decision, each) in names]
        found = {each.task: self._record(decision, each) for each in lost}
        return Recorded(
            {task: why for task, (why, _) in found.items()},
            frozenset(each for _, committed in found.values() for each in committed),
        )

    def trim(self, batch: int) -> None:
        """Delete what nobody asks for once this batch is done; what cannot be deleted stays."""
        try:
            names = sorted(self._folder.names())
        except Exception as error:  # noqa: BLE001 - the batch is done, whatever this says
            _log.warning("%s could not be read to be trimmed: %s", self.root, error)
            return
        for name in names:
            found = _BATCH.fullmatch(name) or _DONE.fullmatch(name)
            if found and int(found[1]) <= batch - _KEPT:
                self._forget(name)

    def _epochs(self, *kinds: re.Pattern[str]) -> list[int]:
        found = (kind.fullmatch(name) for name in self._folder.names() for kind in kinds)
        return sorted(int(match["epoch"]) for match in found if match)

    def _record(self, decision: Decision, lost: Prepared) -> tuple[str, list[int]]:
        """Return the cause that the record of this loss gives, and what was committed by then."""
        name = _lost_name(decision, lost)
        found = self._sealed(name) or {}
        why, committed = found.pop("why", None), found.pop("committed", None)
        others = [each.task for each in decision.prepared or () if each.task != lost.task]
        # Whatever else lies there excuses nothing: rows that the store still has would be missing.
        if (
            found != _loss(decision, lost)
            or not isinstance(why, str)
            or not isinstance(committed, list)
            or not all(each in others for each in committed)
        ):
            raise LogCorrupt(
                f"{self.root}/{name} records another loss than that of {lost.name}, {lost.rows} "
                f"rows of task {lost.task} of batch {decision.batch}; move it elsewhere and start "
                "again"
            )
        return why, committed

    def _check_notes(self) -> None:
        """Refuse a log in which a file is damaged that is read by people, or by few starts."""
        for name in self._folder.names():
            if _EPOCH.fullmatch(name) or _LOST.fullmatch(name):
                self._sealed(name)

    def _sealed(self, name: str) -> dict[str, Any] | None:
        """Return what a file holds; None where it is gone."""
        data = self._folder.read(name)
        return None if data is None else unseal(data, f"{self.root}/{name}")

    def _decision(self, name: str) -> Decision | None:
        content = self._sealed(name)
        if content is None:
            return None
        found = Decision.from_content(content, f"{self.root}/{name}")
        # A copy under another name: a batch would be taken for decided that never was.
        if _batch_name(found) != name:
            raise LogCorrupt(
                f"{self.root}/{name} holds the decision that belongs in {_batch_name(found)}: it "
                "was moved or copied by hand; move it back, or delete the copy"
            )
        return found

    def _done(self, name: str) -> tuple[int, int]:
        self._sealed(name)
        _, batch, slot = name.split("-")
        return int(batch), int(slot)

    def _forget(self, name: str) -> None:
        try:
            self._folder.delete(name)
        except Exception as error:  # noqa: BLE001 - of no use any more, and no harm either
            _log.warning("%s/%s could not be deleted: %s", self.root, name, error)


def place_of(decision: Decision) -> tuple[int, int]:
    """Return the batch and the slot that it is about."""
    return decision.batch, decision.slot


def _batch_name(decision: Decision) -> str:
    return f"batch-{decision.batch:012d}-{decision.slot:04d}"


def _done_name(decision: Decision) -> str:
    return f"done-{decision.batch:012d}-{decision.slot:04d}"


def _lost_name(decision: Decision, lost: Prepared) -> str:
    return f"lost-{decision.batch:012d}-{lost.task:05d}-{decision.epoch:010d}"


def _loss(decision: Decision, lost: Prepared) -> dict[str, Any]:
    """Return what says which committable of which decision is lost."""
    return {
        "batch": decision.batch,
        "slot": decision.slot,
        "epoch": decision.epoch,
        "owner": decision.owner,
        "task": lost.task,
        "name": lost.name,
        "rows": lost.rows,
        "committable": lost.committable,
    }
