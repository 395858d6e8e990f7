"""The markers: one row for each sink, beside the table that its rows go to.

| the row says                        | then             |
|-------------------------------------|------------------|
| nothing, and the batch may be there | MarkerMissing    |
| another owner                       | OwnedByAnother   |
| a later batch                       | CheckpointBehind |
| this batch, with other offsets      | OffsetsChanged   |
| this batch                          | SKIP             |
| an earlier batch, or nothing        | RUN              |

A batch may be there, though no row tells, where an earlier start of the query has planned it: its
number is above 0 and it is no first try. `epoch` is the fence: who claims a sink raises it, and who
moves the marker must still have the epoch of its claim. It is no lower than the server's clock, so
that it does not come again where a row was deleted.
"""

from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import sql

from twophase.commit.recovery import Batch
from twophase.errors import (
    CheckpointBehind,
    Fenced,
    MarkerMissing,
    OffsetsChanged,
    OwnedByAnother,
    RecoveryError,
    StoreUnavailable,
)
from twophase.postgres.connection import unless_there

MARKERS: Final = "twophase_sinks"
_MAKE: Final = sql.SQL(
    "CREATE TABLE IF NOT EXISTS {} (name text PRIMARY KEY, owner text NOT NULL, "
    "batch bigint NOT NULL, offsets text NOT NULL, rows bigint NOT NULL DEFAULT 0, "
    "epoch bigint NOT NULL DEFAULT 0, written_at timestamptz NOT NULL DEFAULT now())"
)
# A row without an owner is one that this transaction makes: who comes at the same time waits.
_FOUND: Final = sql.SQL(
    "INSERT INTO {} (name, owner, batch, offsets) VALUES ({}, '', -1, '') ON CONFLICT DO NOTHING"
)
_READ: Final = sql.SQL("SELECT owner, batch, offsets, epoch FROM {} WHERE name = {} FOR UPDATE")
_CLAIM: Final = sql.SQL(
    "UPDATE {} SET owner = {}, epoch = "
    "greatest(epoch + 1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) "
    "WHERE name = {} RETURNING epoch"
)
_MOVE: Final = sql.SQL(
    "UPDATE {} SET batch = {}, offsets = {}, rows = {}, written_at = now() WHERE name = {}"
)


@dataclass(frozen=True, slots=True)
class Marker:
    """What the row of a sink says; `batch` is -1 where nothing is written yet."""

    owner: str
    batch: int
    offsets: str
    epoch: int


class Markers:
    """The row of one sink.

    It lies in the schema of the table that the rows go to: whoever writes there finds it, under
    any role and any search path.
    """

    def __init__(self, schema: str, name: str) -> None:
        self._table = sql.Identifier(schema, MARKERS)
        self._shown = self._table.as_string()
        self._name = name

    def make(self, connection: psycopg.Connection[Any]) -> None:
        """Make the table if it is not there; another may be making it at the same time."""
        with unless_there():
            connection.execute(_MAKE.format(self._table))

    def claim(self, connection: psycopg.Connection[Any], batch: Batch) -> tuple[int, int]:
        """Take the sink, in a transaction; return the epoch, and the last batch that is there.

        A query that is refused takes nothing away from the one that has the sink.
        """
        connection.execute(_FOUND.format(self._table, self._name))
        marker = self._read(connection)
        if marker is None:
            raise StoreUnavailable(
                f"the row of {self._name} in {self._shown} was deleted just now; start again"
            )
        refusal = _refusal(self._name, self._shown, batch, marker if marker.owner else None)
        if refusal is not None:
            raise refusal
        ask = _CLAIM.format(self._table, batch.owner, self._name)
        ((epoch,),) = connection.execute(ask).fetchall()
        return epoch, marker.batch

    def check_last(self, connection: psycopg.Connection[Any], epoch: int, last: int) -> None:
        """Raise where the sink is not ours, or the server does not know the last batch any more."""
        marker = self.check_owned(connection, epoch)
        if marker.batch != last:
            raise MarkerMissing(
                f"this driver has written batch {last} and the table {self._shown} says that batch "
                f"{marker.batch} was the last: the server has forgotten what it had committed, as "
                "after a fail-over to a replica that was behind; nothing more is written; restore "
                "what is missing, or go back to a checkpoint of that time",
                sink=self._name,
            )

    def check_owned(self, connection: psycopg.Connection[Any], epoch: int) -> Marker:
        """Return the marker, kept from others, or raise where somebody has claimed it since."""
        marker = self._read(connection)
        if marker is None or marker.epoch != epoch:
            raise Fenced(
                "another driver has taken the sink over, or its marker was deleted; this one stops",
                sink=self._name,
                epoch=epoch,
            )
        return marker

    def move(self, connection: psycopg.Connection[Any], batch: Batch, rows: int) -> None:
        """Say that the batch is there, in the transaction that brings its rows."""
        connection.execute(_MOVE.format(self._table, batch.number, batch.offsets, rows, self._name))

    def _read(self, connection: psycopg.Connection[Any]) -> Marker | None:
        """Return what the row says once nobody is writing it, and keep it from others."""
        row = connection.execute(_READ.format(self._table, self._name)).fetchone()
        return None if row is None else Marker(*row)


def _refusal(name: str, table: str, batch: Batch, marker: Marker | None) -> RecoveryError | None:
    number = batch.number
    if marker is None:
        if batch.first_try or number == 0:
            return None
        return MarkerMissing(
            f"the table {table} has no row for {name}, and batch {number} may be written or not: "
            "writing it could double its rows, skipping it could lose them; look for one of its "
            f"rows, then\n{_choice(name, table, batch)}",
            sink=name,
        )
    if marker.owner != batch.owner:
        return OwnedByAnother(
            f"{name} belongs to {marker.owner}, which has written batch {marker.batch}; this is "
            f"{batch.owner} (without its checkpoint a query has a new id): two queries under one "
            "sink id would each take the other's batches for their own; give this query a sink id "
            "of its own, or make sure that the other is stopped for good and hand the sink over:\n"
            f"  {_set(name, table, batch, number - 1, '')}",
            sink=name,
        )
    if marker.batch > number:
        return CheckpointBehind(
            f"batch {marker.batch} is written already and the checkpoint is at {number}: another "
            "driver of this query wrote it while this one started, or the checkpoint was rolled "
            "back; make sure that only one driver runs and start again, or restore the newer "
            f"checkpoint; or, where the rows of batches {number} to {marker.batch} may be "
            f"doubled:\n  {_set(name, table, batch, number - 1, '')}",
            sink=name,
        )
    if marker.batch == number and marker.offsets != batch.offsets:
        return OffsetsChanged(
            f"batch {number} is written with other source offsets than the checkpoint has now "
            f"(hash {marker.offsets or 'unknown'}, now {batch.offsets}): skipping it would lose "
            "rows, writing it would double rows; compare what the batch reads now with the table, "
            f"then\n{_choice(name, table, batch)}",
            sink=name,
        )
    return None


def _choice(name: str, table: str, batch: Batch) -> str:
    return (
        f"to skip it:\n  {_set(name, table, batch, batch.number, batch.offsets)}\n"
        f"to write it:\n  {_set(name, table, batch, batch.number - 1, '')}"
    )


def _set(name: str, table: str, batch: Batch, number: int, offsets: str) -> str:
    """Return the SQL by which a person says what is written."""
    values = (name, batch.owner, number, offsets)
    shown = ", ".join(sql.Literal(each).as_string() for each in values)
    columns = ("owner", "batch", "offsets")
    sets = ", ".join(f"{each} = excluded.{each}" for each in columns)
    return (
        f"INSERT INTO {table} (name, {', '.join(columns)}) VALUES ({shown}) "  # noqa: S608
        f"ON CONFLICT (name) DO UPDATE SET {sets};"
    )
