"""What the checker found: counts, first examples, and one table for people."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """What can be wrong with what a sink wrote."""

    LOST = "lost"
    DUPLICATE = "duplicate"
    TORN = "torn"
    REORDERED = "reordered"
    VANISHED = "vanished"
    OVERTAKEN = "overtaken"
    CORRUPT = "corrupt"
    STRANGE = "strange"
    LEFT_OPEN = "left-open"


LABELS: Final = {
    Kind.LOST: "rows lost",
    Kind.DUPLICATE: "duplicate rows",
    Kind.TORN: "torn batches",
    Kind.REORDERED: "rows out of order",
    Kind.VANISHED: "rows seen, then gone",
    Kind.OVERTAKEN: "rows behind the reader",
    Kind.CORRUPT: "corrupt rows",
    Kind.STRANGE: "rows not of the input",
    Kind.LEFT_OPEN: "transactions left open",
}
ROWS_IN: Final = "rows in"
ROWS_OUT: Final = "rows out"
LONGEST_STALL: Final = "longest reader stall"
NOT_CHECKED: Final = "not checked"


@dataclass(frozen=True, slots=True)
class Finding:
    """How often one kind was found, and the first of them; None where it was not looked for."""

    kind: Kind
    count: int | None
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """Everything that was found about one sink; one finding for each kind."""

    sink: str
    rows_in: int
    rows_out: int
    longest_stall_s: float | None
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing was found; what was not looked for is in `not_checked`."""
        return not any(finding.count for finding in self.findings)

    @property
    def not_checked(self) -> tuple[Kind, ...]:
        """What was not looked for, because the evidence for it was not given."""
        return tuple(finding.kind for finding in self.findings if finding.count is None)

    def finding(self, kind: Kind) -> Finding:
        """Return what was found of one kind."""
        return next(finding for finding in self.findings if finding.kind is kind)

    def count(self, kind: Kind) -> int | None:
        """Return how many were found of one kind; None where it was not looked for."""
        return self.finding(kind).count

    def lines(self) -> list[tuple[str, str]]:
        """Return the rows of the table: what, and how much."""
        stall_s = self.longest_stall_s
        return [
            (ROWS_IN, f"{self.rows_in:,}"),
            (ROWS_OUT, f"{self.rows_out:,}"),
            *((LABELS[finding.kind], _counted(finding.count)) for finding in self.findings),
            (LONGEST_STALL, NOT_CHECKED if stall_s is None else f"{stall_s:.2f} s"),
        ]


def table(verdicts: Sequence[Verdict]) -> str:
    """Return verdicts side by side as plain text, with the first examples below."""
    columns = [["", *(label for label, _ in verdicts[0].lines()), "verdict"]]
    for verdict in verdicts:
        cells = [text for _, text in verdict.lines()]
        columns.append([verdict.sink, *cells, "ok" if verdict.ok else "NOT OK"])
    widths = [max(map(len, column)) for column in columns]
    lines = [
        "  ".join(
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in zip(*columns, strict=True)
    ]
    return "\n".join([*lines, *_examples(verdicts)])


def _examples(verdicts: Sequence[Verdict]) -> list[str]:
    return [
        f"{verdict.sink}: {LABELS[finding.kind]}: {example}"
        for verdict in verdicts
        for finding in verdict.findings
        for example in finding.examples
    ]


def _counted(count: int | None) -> str:
    return NOT_CHECKED if count is None else f"{count:,}"
