"""What `twophase verify` has found, as data and as text for people."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from twophase.verify.verdict import LABELS, Verdict

if TYPE_CHECKING:
    from twophase.verify.belongings import Belongings
    from twophase.verify.proof import Proof, ProofPlan

OK, FOUND, UNPROVED = 0, 1, 3
_CLEAN = "nothing was lost, doubled, torn, reordered or left open"
_CLEAN_BY_ID = "nothing was lost, doubled or left open"


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a run; `unproved` says why nothing follows from it, `left` what stayed behind.

    `faults` are counted by the names that were allowed, `done` by what was done; `restarts` is how
    often the query was started again, `exits` why it ended by itself.
    """

    code: int
    said: str
    unproved: tuple[str, ...]
    about: str
    prefix: str
    faults: Mapping[str, int]
    done: Mapping[str, int]
    restarts: int
    exits: Mapping[str, int]
    longest_stall_s: float
    took_s: float
    verdict: Verdict
    deleted: tuple[str, ...]
    left: tuple[str, ...]
    report: str | None = None


def result_of(
    proof: "Proof",
    plan: "ProofPlan",
    own: "Belongings",
    what: str,
) -> Result:
    """Return the result of a proof whose belongings are deleted, as far as they could be."""
    chaos = proof.chaos
    faults = ", ".join(f"{name} {count}" for name, count in proof.faults.items())
    return Result(
        code=code_of(proof),
        said=said_of(proof),
        unproved=proof.unproved,
        about=(
            f"{proof.verdict.rows_in:,} rows through {what}, in {chaos.took_s:.0f} s; faults: "
            f"{faults}; {chaos.starts} starts of the query on {plan.master}, seed {plan.seed}"
        ),
        prefix=own.prefix,
        faults=proof.faults,
        done=chaos.faults,
        restarts=max(0, chaos.starts - 1),
        exits=chaos.exits,
        longest_stall_s=chaos.longest_stall_s,
        took_s=chaos.took_s,
        verdict=proof.verdict,
        deleted=tuple(topic for topic in own.topics if topic not in own.left),
        left=own.left,
    )


def code_of(proof: "Proof") -> int:
    """Return the exit code: what was found counts, also where not all faults came."""
    if not proof.verdict.ok:
        return FOUND
    return UNPROVED if proof.unproved else OK


def said_of(proof: "Proof") -> str:
    """Return the verdict in one sentence."""
    wrong = [finding.kind.value for finding in proof.verdict.findings if finding.count]
    if wrong:
        return f"NOT OK: {', '.join(wrong)}"
    if proof.unproved:
        return f"NOT PROVED: {'; '.join(proof.unproved)}"
    if not proof.verdict.not_checked:
        return f"ok: {_CLEAN}"
    unseen = ", ".join(LABELS[kind] for kind in proof.verdict.not_checked)
    return f"ok: {_CLEAN_BY_ID}; not looked at: {unseen}"


def text_of(result: Result) -> list[RenderableType]:
    """Return the text for people."""
    table = Table("found", "", box=None)
    for label, text in result.verdict.lines():
        table.add_row(label, text)
    examples = [
        Text(f"{finding.kind.value}: {example}")
        for finding in result.verdict.findings
        for example in finding.examples
    ]
    style = {OK: "green", FOUND: "red"}.get(result.code, "yellow")
    more = [Text(f"the report with plots: {result.report}")] if result.report else []
    return [
        Text(result.about),
        table,
        *examples,
        Text(result.said, style),
        Text(f"deleted: {', '.join(result.deleted) or 'nothing'}"),
        *([Text(f"left behind: {', '.join(result.left)}", "yellow")] if result.left else []),
        *more,
    ]
