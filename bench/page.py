"""Writes the figures of the last `make bench` into docs/performance.md."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->\n"


def write_page(report: Path) -> None:
    """Replace the table between the two comments."""
    found = json.loads(report.read_text())
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}{table(found)}{END}{after}")


def table(report: dict[str, Any]) -> str:
    """Return machine, versions and every figure as Markdown."""
    machine, versions = report["machine"], report["versions"]
    lines = [
        f"{machine['processor']}, {machine['cores']} cores, {machine['system']}; "
        + ", ".join(f"{name} {version}" for name, version in versions.items()),
        "",
        "| figure | ours | peer | ratio | must reach | aim |",
        "|---|---|---|---|---|---|",
    ]
    lines += [f"| {' | '.join(_cells(figure))} |" for figure in report["figures"]]
    return "\n".join(lines) + "\n"


def _cells(figure: dict[str, Any]) -> list[str]:
    best = min if figure["lower_is_better"] else max
    unit = figure["unit"]
    ours = f"{_number(best(figure['values']))} {unit}"
    peer = f"{_number(best(figure['peer_values']))} {unit}" if figure["peer_values"] else ""
    ratio = "" if figure["ratio"] is None else f"{figure['ratio']:.2f}"
    if not figure["reached"]:
        ratio = f"**{ratio or ours}, missed**"
    bounds = ["" if figure[name] is None else f"{figure[name]:g}" for name in ("must", "aim")]
    if figure["lower_is_better"]:
        bounds = [f"at most {bound}" if bound else "" for bound in bounds]
    return [figure["name"], ours, f"{figure['peer']} {peer}".strip(), ratio, *bounds]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"  # noqa: PLR2004 - digits that matter
