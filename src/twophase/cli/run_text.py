"""A run as people follow it: one line that moves on a terminal, plain lines elsewhere."""

import math
import sys
import time
from types import TracebackType
from typing import Final, Self

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from twophase.cli.run_output import unheard
from twophase.pipeline.events import (
    BatchDone,
    Event,
    Restarting,
    Started,
    Status,
    Stopped,
    Stopping,
)

# Batches may come ten times a second; nobody reads so fast, and a log need not keep them all.
_LINE_EVERY_S: Final = 5.0


class TextTeller:
    """Prints lines on stdout; on a terminal the status is a line on stderr that moves."""

    def __init__(self) -> None:
        console = Console(stderr=True, highlight=False)
        # Asked now: while the line moves, streams are stand-ins that lead to it.
        self._stdout_is_terminal = sys.stdout is not None and sys.stdout.isatty()
        self._live = (
            Live(
                Text(""),
                console=console,
                transient=True,
                auto_refresh=False,
                # What goes to a file or a pipe must arrive there, and not beside the line.
                redirect_stdout=self._stdout_is_terminal,
            )
            if console.is_terminal
            else None
        )
        self._rows: dict[str, int] = {}
        self._rejected: dict[str, int] = {}
        self._batches: dict[str, int] = {}
        self._said_s = -math.inf
        self._status = Status()

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            with unheard():
                self._live.__exit__(kind, error, trace)

    def __call__(self, event: Event) -> None:
        """Tell an event."""
        if isinstance(event, Status):
            self._status = event
            if self._live is not None:
                self._live.update(Text(status_line(event)), refresh=True)
            self._say_batches(_LINE_EVERY_S)
        elif isinstance(event, BatchDone):
            record = event.record
            if record.error is None:
                self._rows[record.sink_id] = self._rows.get(record.sink_id, 0) + record.rows
                rejected = self._rejected.get(record.sink_id, 0) + record.rejected_rows
                self._rejected[record.sink_id] = rejected
                self._batches[record.sink_id] = record.batch
            else:
                self._say(f"batch {record.batch} of {record.sink_id} failed: {record.error}")
        elif isinstance(event, Stopped | Restarting | Stopping):
            self._say_batches(0.0)
            self._say(line_of(event))
        elif isinstance(event, Started):
            self._say(line_of(event))

    def _say_batches(self, every_s: float) -> None:
        now_s = time.monotonic()
        if not self._rows or now_s - self._said_s < every_s:
            return
        self._said_s = now_s
        for sink_id, rows in self._rows.items():
            behind = "" if self._status.lag is None else f", lag {self._status.lag:,}"
            rate = f", {self._status.rows_per_s:,.0f} rows/s" if self._status.rows_per_s else ""
            rejected = self._rejected[sink_id]
            put_aside = f", {rejected:,} dead letters" if rejected else ""
            batch = self._batches[sink_id]
            self._say(f"{sink_id}: batch {batch}, {rows:,} rows{put_aside}{rate}{behind}")
        self._rows.clear()
        self._rejected.clear()

    def _say(self, line: str) -> None:
        if self._live is not None and self._stdout_is_terminal:
            self._live.console.print(Text(line))
        else:
            click.echo(line)


def status_line(status: Status) -> str:
    """Return how it goes, in one line."""
    batch = "no batch yet" if status.batch is None else f"batch {status.batch} done"
    parts = [batch, f"{status.rows_per_s:,.0f} rows/s", f"{status.rows:,} rows"]
    if status.lag is not None:
        parts.append(f"lag {status.lag:,}")
    if status.transaction_age_s is not None:
        limit = (
            "" if status.transaction_limit_s is None else f" of {status.transaction_limit_s:.0f}"
        )
        parts.append(f"transaction open {status.transaction_age_s:.1f}{limit} s")
    if status.restarts:
        parts.append(f"{status.restarts} restart{'s' if status.restarts > 1 else ''}")
    return ", ".join([*parts, status.phase])


def line_of(event: Event) -> str:
    """Return an event in one line."""
    if isinstance(event, Started):
        again = f" again (restart {event.restarts})" if event.restarts else ""
        return f"{event.pipeline} runs{again}: sinks {', '.join(event.sinks)}"
    if isinstance(event, Restarting):
        return (
            f"the query failed: {event.error}; it is started again in {event.pause_s:.0f} s "
            f"({event.restart} of {event.of})"
        )
    if isinstance(event, Stopping):
        under_way = "no batch is under way" if event.batch is None else f"batch {event.batch} ends"
        return f"stopping: {under_way}; once more (Ctrl-C, SIGTERM) ends it at once"
    if isinstance(event, Stopped):
        batch = "no batch was run" if event.batch is None else f"the last batch is {event.batch}"
        offsets = "".join(f"; {source} up to {end}" for source, end in event.offsets.items())
        return f"{event.why}: {batch}, {event.rows:,} rows written{offsets}"
    return ""
