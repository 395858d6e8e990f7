"""The report: one HTML file that needs nothing else, for a history and its verdicts."""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import count
from pathlib import Path
from typing import Final

from twophase.errors import ConfigurationError
from twophase.verify.history import History
from twophase.verify.report_plots import (
    PHASES,
    Story,
    fault_text,
    highest,
    open_plot,
    phases_plot,
    rows_plot,
)
from twophase.verify.report_style import STYLE
from twophase.verify.verdict import LABELS, Verdict

TITLE: Final = "Exactly once, or not: what readers saw"


def write_report(path: Path, history: History, verdicts: Sequence[Verdict], **how: str) -> None:
    """Write the report to a file."""
    path.write_text(report(history, verdicts, **how), encoding="utf-8")


def report(
    history: History, verdicts: Sequence[Verdict], *, title: str = TITLE, about: str = ""
) -> str:
    """Return the report as HTML; a verdict finds its events in the history by its sink's name."""
    if not verdicts:
        raise ConfigurationError("a report was asked for without a verdict; give one or more")
    stories = [Story.of(history, verdict) for verdict in verdicts]
    body = "\n".join(
        [
            f"<h1>{escape(title)}</h1>",
            f'<p class="about">{escape(about)}</p>' if about else "",
            _table(verdicts),
            *_examples(verdicts),
            *_plots(stories),
            *_faults(stories),
            _unfinished(history),
        ]
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _table(verdicts: Sequence[Verdict]) -> str:
    heads = "".join(f'<th scope="col">{escape(verdict.sink)}</th>' for verdict in verdicts)
    found = {LABELS[kind] for kind in LABELS}
    rows = []
    for cells in zip(*(verdict.lines() for verdict in verdicts), strict=True):
        label = cells[0][0]
        drawn = "".join(_cell(text, counted=label in found) for _, text in cells)
        rows.append(f'<tr><th scope="row">{escape(label)}</th>{drawn}</tr>')
    last = "".join(
        '<td class="good">✓ nothing found</td>' if verdict.ok else '<td class="bad">✗ not ok</td>'
        for verdict in verdicts
    )
    return (
        '<div class="wide"><table><caption>What went in, what came out, and what is wrong with it'
        f'</caption><thead><tr><th scope="col">found</th>{heads}</tr></thead><tbody>'
        f'{"".join(rows)}<tr><th scope="row">verdict</th>{last}</tr></tbody></table></div>'
    )


def _cell(text: str, *, counted: bool) -> str:
    # Not by colour alone: a cross stands before what is wrong.
    if counted and text[0] in "123456789":
        return f'<td class="bad">✗ {escape(text)}</td>'
    return f"<td>{escape(text)}</td>"


def _examples(verdicts: Sequence[Verdict]) -> Iterator[str]:
    for verdict in verdicts:
        items = "".join(
            f"<li>{escape(LABELS[finding.kind])}: <code>{escape(example)}</code></li>"
            for finding in verdict.findings
            for example in finding.examples
        )
        if items:
            yield (
                f"<details><summary>{escape(verdict.sink)}: the first of each kind</summary>"
                f"<ul>{items}</ul></details>"
            )


def _plots(stories: Sequence[Story]) -> Iterator[str]:
    span_s = max(story.span_s for story in stories)
    rows = max(max(story.verdict.rows_in, story.verdict.rows_out) for story in stories)
    phases_s = highest(stories, *(name for name, _ in PHASES))
    open_s = highest(stories, "open_s")
    ident = count(1)
    for heading, legend, panels in (
        (
            "Rows visible over time",
            '<span class="key fault-key"></span> fault, numbered as in the list below',
            [rows_plot(story, span_s, rows) for story in stories],
        ),
        (
            "Batch times by phase",
            " ".join(f'<span class="key {style}"></span> {style}' for _, style in PHASES),
            [phases_plot(story, phases_s) for story in stories],
        ),
        (
            "Time with an open transaction",
            '<span class="key open"></span> how long readers of the topic had to wait',
            [open_plot(story, open_s) for story in stories],
        ),
    ):
        figures = "".join(
            f"<figure>{panel.svg(f'plot-{next(ident)}')}"
            f"<figcaption>{escape(panel.title)}. {escape(panel.description)}</figcaption></figure>"
            for panel in panels
        )
        yield (
            f'<section><h2>{heading}</h2><p class="legend">{legend}</p>'
            f'<div class="plots">{figures}</div></section>'
        )


def _faults(stories: Sequence[Story]) -> Iterator[str]:
    for story in stories:
        items = "".join(f"<li>{escape(fault_text(*fault))}</li>" for fault in story.faults())
        if items:
            yield (
                f"<section><h2>Faults: {escape(story.verdict.sink)}</h2><ol>{items}</ol></section>"
            )


def _unfinished(history: History) -> str:
    if not history.unfinished:
        return ""
    return (
        f"<p>{history.unfinished} lines of the history were left unfinished by a killed process;"
        " the verdict does not rest on them.</p>"
    )
