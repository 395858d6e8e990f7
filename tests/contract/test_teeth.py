"""Sinks that break the contract, each in one way: the kit's test of that name fails."""

import shutil
from contextlib import suppress

import pytest
from parquet_folder import ParquetFolder

from twophase import CommittableLost
from twophase.errors import TwoPhaseError
from twophase.testing import SinkContract, contract

from .test_parquet_folder import stage_in


class Careless(ParquetFolder):
    """Its `abort` does nothing."""

    def abort(self, staging):
        pass


class Hasty(ParquetFolder):
    """Shows rows once they are prepared."""

    def prepare(self, staging):
        committable = super().prepare(staging)
        shutil.copytree(staging, self.folder / staging.name.removeprefix("."))
        return committable

    def commit(self, committable):
        shutil.rmtree(self.folder / f".{committable['name']}", ignore_errors=True)


class Doubling(ParquetFolder):
    """Writes the rows at every commit, and keeps what it writes them from."""

    def commit(self, committable):
        staging = self.folder / f".{committable['name']}"
        if not staging.exists():
            raise CommittableLost(f"{staging} is gone")
        final = self.folder / committable["name"]
        final.mkdir(exist_ok=True)
        copies = len(list(final.iterdir()))
        for number, path in enumerate(sorted(staging.glob("*.parquet"))):
            shutil.copy(path, final / f"{copies + number:06d}.parquet")


class Once(ParquetFolder):
    """Says of what is committed already that it is lost."""

    def commit(self, committable):
        try:
            (self.folder / f".{committable['name']}").rename(self.folder / committable["name"])
        except FileNotFoundError:
            raise CommittableLost("it is gone") from None


class Trusting(ParquetFolder):
    """Takes what is lost for what is done."""

    def commit(self, committable):
        with suppress(CommittableLost):
            super().commit(committable)


class Sweeping(ParquetFolder):
    """Its `recover` ends all of the sink, also what newer drivers and later batches have."""

    def recover(self, stale):
        for staging in self.folder.glob(".*"):
            name = staging.name.removeprefix(".").replace("~", "/")
            if name.startswith(stale.prefix):
                self.abort(staging)


class Grasping(ParquetFolder):
    """Its `recover` ends what lost of every sink."""

    def recover(self, stale):
        for staging in self.folder.glob(".*"):
            name = staging.name.removeprefix(".").replace("~", "/")
            own = f"{stale.prefix}{name.partition('//')[2]}"
            if own in stale:
                self.abort(staging)


class Undoing(ParquetFolder):
    """Its `recover` ends what is committed, too."""

    def recover(self, stale):
        super().recover(stale)
        for final in self.folder.glob("[!.]*"):
            if final.name.replace("~", "/") in stale:
                shutil.rmtree(final)


class Idle(ParquetFolder):
    """Its `recover` ends nothing."""

    def recover(self, stale):
        pass


class Narrow(ParquetFolder):
    """Its `recover` ends what the last driver has, and not what older ones have."""

    def recover(self, stale):
        for staging in self.folder.glob(".*"):
            name = staging.name.removeprefix(".").replace("~", "/")
            if name in stale and f"/{stale.epoch:010d}/" in name:
                self.abort(staging)


class Homebound(ParquetFolder):
    """Keeps in its process what the commit needs."""

    prepared = None

    def prepare(self, staging):
        self.prepared = super().prepare(staging)
        return {}

    def commit(self, committable):
        if self.prepared is None:
            raise CommittableLost(f"this process has not prepared {committable}")
        super().commit(self.prepared)


BAD = [
    (Careless, "an_abort_drops_the_rows", {}, "transactions held after an abort: found 1"),
    (Hasty, "prepared_rows_are_seen_by_nobody", {}, r"found \[1, 2\], expected \[\]"),
    (Doubling, "a_commit_may_be_repeated", {}, "expected "),
    (Once, "a_commit_may_be_repeated", {}, "it is gone"),
    (Trusting, "what_lost_is_ended", {}, "DID NOT RAISE"),
    (Trusting, "confirm_sees_what_is_gone", {}, "DID NOT RAISE"),
    (Sweeping, "nothing_else_is_ended", {}, "neither"),
    (Grasping, "nothing_else_is_ended", {}, "neither"),
    (Undoing, "a_recovery_leaves_what_is_committed", {}, "neither"),
    (Idle, "what_lost_is_ended", {}, "DID NOT RAISE"),
    (Idle, "killed_at_each_step", {"after": True}, "transactions held killed at step"),
    (Narrow, "what_older_drivers_left_is_ended", {}, "DID NOT RAISE"),
    (Homebound, "a_sink_and_its_committables_travel", {}, "has not prepared"),
]


@pytest.mark.parametrize(("kind", "test", "how", "told"), BAD)
def test_a_bad_sink_fails(tmp_path, monkeypatch, kind, test, how, told):
    """By the test that is named, which says what is wrong."""
    monkeypatch.setattr(contract, "_HELD_S", 0.1)
    with pytest.raises((AssertionError, TwoPhaseError, pytest.fail.Exception), match=told):
        getattr(SinkContract(), f"test_{test}")(stage_in(tmp_path, kind), **how)
