"""The three plots of a sink: rows visible over time, batch times by phase, time held open."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from twophase.verify.history import BatchDone, Event, FaultInjected, History, RowsSeen
from twophase.verify.report_svg import Panel
from twophase.verify.verdict import Verdict

PHASES: Final = (("encode_s", "encode"), ("send_s", "send"), ("commit_s", "commit"))
_BARS_MAX: Final = 200
_NO_RECORDS: Final = "this sink keeps no record of its batches"
_HEADROOM: Final = 1.08

Bar = tuple[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Story:
    """One sink's part of a history, from its own first event to its own last."""

    verdict: Verdict
    events: History
    began_s: float
    ended_s: float

    @classmethod
    def of(cls, history: History, verdict: Verdict) -> "Story":
        """Cut out what belongs to a sink; faults outside of its time are not its own."""
        events = history.of(verdict.sink)
        own: Sequence[Event] = [event for event in events.events if event.sink] or events.events
        began_s, ended_s = (own[0].at_s, own[-1].at_s) if own else (0.0, 0.0)
        return cls(verdict, events, began_s, ended_s)

    @property
    def span_s(self) -> float:
        """How long it took."""
        return self.ended_s - self.began_s

    def faults(self) -> Iterator[tuple[float, FaultInjected]]:
        """Return what was done to the sink, with the time since its beginning."""
        for fault in self.events.all(FaultInjected):
            if self.began_s <= fault.at_s <= self.ended_s:
                yield fault.at_s - self.began_s, fault

    def records(self) -> list[Mapping[str, Any]]:
        """Return the sink's own records of its batches."""
        return [event.record for event in self.events.all(BatchDone)]


def fault_text(at_s: float, fault: FaultInjected) -> str:
    """Return a fault for people."""
    return f"{at_s:.1f} s: {fault.kind}, {fault.target}"


def rows_plot(story: Story, x_max: float, y_max: float) -> Panel:
    """Plot how many rows the running reader had seen, with the faults marked."""
    points = [(seen.at_s - story.began_s, seen.rows) for seen in story.events.all(RowsSeen)]
    faults = list(story.faults())
    verdict = story.verdict
    panel = Panel(
        title=f"{verdict.sink}: rows visible over time",
        description=f"Up to {points[-1][1] if points else 0:,} rows visible within"
        f" {story.span_s:.0f} seconds, {verdict.rows_in:,} rows in, {len(faults)} faults.",
        x_label="seconds",
        y_label="rows visible",
        x_max=x_max,
        y_max=y_max * _HEADROOM,
    )
    panel.level(verdict.rows_in, f"rows in: {verdict.rows_in:,}")
    for number, (at_s, fault) in enumerate(faults, start=1):
        panel.mark(at_s, number, fault_text(at_s, fault))
    if points:
        panel.steps([(0.0, 0.0), *points], "rows")
    else:
        panel.note("no reader ran")
    return panel


def phases_plot(story: Story, y_max: float) -> Panel:
    """Plot how long each batch took to encode, send and commit."""
    return _bars(story, "batch times by phase", [(name, style) for name, style in PHASES], y_max)


def open_plot(story: Story, y_max: float) -> Panel:
    """Plot how long each batch had a transaction open."""
    return _bars(story, "time with an open transaction", [("open_s", "open")], y_max)


def highest(stories: Sequence[Story], *names: str) -> float:
    """Return the highest bar of all sinks, so that their plots have one scale."""
    sums = (_sum(record, names) for story in stories for record in story.records())
    return max(sums, default=0.0) or 1.0


def _bars(story: Story, what: str, parts: Sequence[tuple[str, str]], y_max: float) -> Panel:
    records, names = story.records(), [name for name, _ in parts]
    bars = list(_grouped(records, names))
    longest_s = max((_sum(record, names) for record in records), default=0.0)
    each = -(-len(records) // len(bars)) if bars else 1
    panel = Panel(
        title=f"{story.verdict.sink}: {what}",
        description=f"{len(records)} batches, the longest {longest_s:.2f} seconds."
        if records
        else _NO_RECORDS,
        x_label="batches, in order" if each == 1 else f"batches, in order; a bar is {each} of them",
        y_label="seconds",
        x_max=len(records),
        y_max=y_max * _HEADROOM,
    )
    if not bars:
        panel.note(_NO_RECORDS)
    for at, (label, means) in enumerate(bars):
        tip = f"{label}: " + ", ".join(f"{style} {means[name]:.3f} s" for name, style in parts)
        width = min(each, len(records) - at * each)
        panel.stack(at * each, width * 0.9, [(means[name], style) for name, style in parts], tip)
    return panel


def _grouped(records: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Iterator[Bar]:
    """Return one bar for each batch, or for the mean of a few where there are many."""
    each = -(-len(records) // _BARS_MAX) or 1
    for start in range(0, len(records), each):
        group = records[start : start + each]
        first, last = group[0], group[-1]
        label = f"batch {first.get('batch')}, {first.get('outcome')}"
        if len(group) > 1:
            label = f"mean of batches {first.get('batch')} to {last.get('batch')}"
        yield label, {name: _sum_all(group, name) / len(group) for name in names}


def _sum_all(records: Sequence[Mapping[str, Any]], name: str) -> float:
    return sum(_sum(record, (name,)) for record in records)


def _sum(record: Mapping[str, Any], names: Sequence[str]) -> float:
    return sum(float(record.get(name) or 0.0) for name in names)
