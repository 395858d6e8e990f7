"""The report says what history and verdicts say, in one file that needs no other."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest

from twophase.errors import ConfigurationError
from twophase.verify.history import BatchDone, FaultInjected, History, RowsProduced, RowsSeen
from twophase.verify.report import report, write_report
from twophase.verify.report_style import STYLE
from twophase.verify.report_svg import ticks
from twophase.verify.verdict import Finding, Kind, Verdict

ROWS = 1000


def verdict(sink, rows_out=ROWS, stall_s=0.4, **found):
    findings = tuple(
        Finding(kind, found.get(kind.name.lower(), 0), tuple(found.get("examples", ())))
        for kind in Kind
    )
    return Verdict(sink, ROWS, rows_out, stall_s, findings)


def batch(number):
    return {
        "batch": number,
        "outcome": "committed",
        "encode_s": 0.5,
        "send_s": 0.3,
        "commit_s": 0.05,
        "open_s": 0.4,
    }


def history(batches=10):
    """Two sinks, one after the other; only the first keeps records of its batches."""
    events = [RowsProduced(at_s=0.0, first=0, stop=ROWS)]
    for step in range(11):
        events += [
            RowsSeen(at_s=100.0 + step, sink="twophase", rows=100 * step, reached={0: step}),
            RowsSeen(at_s=200.0 + 2 * step, sink="spark", rows=120 * step, reached={0: step}),
        ]
    events += [BatchDone(at_s=101.0, sink="twophase", record=batch(n)) for n in range(batches)]
    for at_s in (103.0, 107.0, 204.0):
        events.append(FaultInjected(at_s=at_s, kind="kill -9", target="driver"))
    return History(tuple(sorted(events, key=lambda event: event.at_s)))


class Page(HTMLParser):
    """The tags of a page, its text, and whether every tag is closed."""

    EMPTY = ("meta", "!doctype")

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.cells = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.EMPTY:
            self.open.append(tag)
        if tag in {"td", "th"}:
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in {"td", "th"}:
            self.cells[-1] += data

    def attributes(self, tag):
        return [found for name, found in self.tags if name == tag]


def both():
    spark = verdict("spark", rows_out=1200, stall_s=None, duplicate=200, torn=3)
    return report(history(), [verdict("twophase"), spark])


def plots(page):
    return [ET.fromstring(found) for found in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def test_the_page_is_whole_and_needs_nothing_else():
    """Every tag is closed, and nothing is loaded from anywhere."""
    text = both()
    page = Page(text)
    assert page.open == []
    assert not re.search(r"https?:|\bsrc=|\bhref=|url\(|@import|<script", text)
    assert page.attributes("html") == [{"lang": "en"}]
    assert len(page.attributes("title")) > 1
    assert "<title>Exactly once, or not: what readers saw</title>" in text


def test_the_table_has_both_sinks_side_by_side():
    """What is wrong is told by a sign and not by colour alone."""
    cells = Page(both()).cells
    rows = [cells[at : at + 3] for at in range(0, len(cells), 3)]
    assert rows[0] == ["found", "twophase", "spark"]
    assert ["rows in", "1,000", "1,000"] in rows
    assert ["rows out", "1,000", "1,200"] in rows
    assert ["rows lost", "0", "0"] in rows
    assert ["duplicate rows", "0", "✗ 200"] in rows
    assert ["torn batches", "0", "✗ 3"] in rows
    assert ["transactions left open", "0", "0"] in rows
    assert ["longest reader stall", "0.40 s", "not checked"] in rows
    assert rows[-1] == ["verdict", "✓ nothing found", "✗ not ok"]


def test_every_plot_has_a_name_and_a_description():
    """Three for each sink, told apart by ids that stand once on the page."""
    drawn = plots(both())
    assert len(drawn) == 6
    named = [(svg.find("title").text, svg.find("desc").text) for svg in drawn]
    assert named[0] == (
        "twophase: rows visible over time",
        "Up to 1,000 rows visible within 10 seconds, 1,000 rows in, 2 faults.",
    )
    assert named[1][1].startswith("Up to 1,200 rows visible within 20 seconds")
    assert named[2][1] == "10 batches, the longest 0.85 seconds."
    assert named[3][1] == "this sink keeps no record of its batches"
    ids = re.findall(r'id="([^"]*)"', both())
    assert len(ids) == len(set(ids)) == 12


def test_the_lines_stand_where_the_numbers_are():
    """One scale for both sinks: 20 seconds wide, and somewhat more than 1,200 rows high."""
    first = plots(both())[0]
    marks = [group for group in first.iter("g") if group.find("text") is not None]
    assert [mark.find("text").text for mark in marks] == ["1", "2"]
    assert marks[0].find("title").text == "3.0 s: kill -9, driver"
    left, right = 78, 720 - 16
    assert float(marks[0].find("text").get("x")) == pytest.approx(
        left + (right - left) * 3 / 20, 0.01
    )
    line = next(path for path in first.iter("path") if path.get("class") == "line rows")
    last = re.findall(r"H([\d.]+)V([\d.]+)", line.get("d"))[-1]
    assert float(last[0]) == pytest.approx(left + (right - left) * 10 / 20, 0.01)
    assert float(last[1]) == pytest.approx(234 - (234 - 30) * 1000 / (1200 * 1.08), 0.01)


def test_many_batches_become_means_of_a_few():
    """A long run makes no huge file."""
    text = report(history(batches=1001), [verdict("twophase")])
    bars = list(plots(text)[1].iter("g"))
    assert len(bars) == 167
    assert bars[0].find("title").text.startswith("mean of batches 0 to 5: encode 0.500 s")
    assert len(text) < 200_000


def test_names_and_examples_are_escaped(tmp_path):
    """What was read from a topic cannot become part of the page."""
    evil = '<img src="x">&'
    path = tmp_path / "report.html"
    found = verdict(evil, strange=1, examples=[evil])
    write_report(path, History(()), [found], title=evil, about=evil)
    text = path.read_text(encoding="utf-8")
    assert "<img" not in text
    assert Page(text).open == []


def test_a_report_without_a_verdict_is_refused():
    """There is nothing to report."""
    with pytest.raises(ConfigurationError, match="without a verdict"):
        report(history(), [])


def test_an_unfinished_line_is_told():
    """Nothing is hidden from whoever reads the report."""
    assert "2 lines of the history were left" in report(History((), 2), [verdict("twophase")])


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (0, [0]),
        (1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (12, [0, 2, 4, 6, 8, 10, 12]),
        (0.2, [0, 0.05, 0.1, 0.15, 0.2]),
    ],
)
def test_ticks_are_round_numbers(most, expected):
    """From 0 up to the highest, a few of them."""
    assert ticks(most) == pytest.approx(expected)


def contrast(one, other):
    """WCAG's contrast of two colours."""

    def light(colour):
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(p * weight for p, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_text_and_plots_have_contrast_in_light_and_dark():
    """At least 4.5 to 1 against the page, as the accessibility guidelines ask of text."""
    palettes = [dict(re.findall(r"--(\w+): (#\w{6})", part)) for part in STYLE.split("@media")]
    assert len(palettes) == 2
    for palette in palettes:
        for name in set(palette) - {"paper", "line"}:
            assert contrast(palette[name], palette["paper"]) >= 4.5, name
