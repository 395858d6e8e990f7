"""`python -m bench` measures and writes build/bench.json; `python -m bench check` judges it.

`python -m bench growth` measures how speed and memory follow the size of the work, and draws it;
`python -m bench page` writes the last figures into docs/performance.md.
"""

import argparse
import json
import sys
from pathlib import Path

from bench import encode, postgres, recovery, send, spark
from bench.broker import broker
from bench.growth import growth
from bench.page import write_page
from bench.report import write_report

REPORT = Path(__file__).parent.parent / "build" / "bench.json"
GROUPS = {
    "encode": encode.measure,
    "send": send.measure,
    "spark": spark.measure,
    "recovery": recovery.measure,
    "postgres": postgres.measure,
}


def main() -> None:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "act", nargs="?", choices=("measure", "check", "growth", "page"), default="measure"
    )
    parser.add_argument("--only", choices=GROUPS, help="measure one group instead of all")
    parser.add_argument("--rows", type=int, default=200_000, help="rows of up to 100 bytes per run")
    parser.add_argument("--runs", type=int, default=5, help="runs of each side; the best counts")
    arguments = parser.parse_args()
    if arguments.act == "check":
        check()
    elif arguments.act == "growth":
        growth()
    elif arguments.act == "page":
        write_page(REPORT)
    else:
        measure([arguments.only] if arguments.only else list(GROUPS), arguments)


def measure(groups: list[str], arguments: argparse.Namespace) -> None:
    """Measure the groups on one embedded broker and write the report."""
    figures = []
    with broker() as kafka:
        for group in groups:
            for figure in GROUPS[group](kafka.bootstrap_servers, arguments.rows, arguments.runs):
                print(figure, flush=True)
                figures.append(figure)
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    write_report(REPORT, figures)
    print(f"written to {REPORT.parent.name}/{REPORT.name}")


def check() -> None:
    """Exit with 1 when a figure of the last report misses what it must reach."""
    if not REPORT.exists():
        sys.exit(f"{REPORT.name} is not there; run: make bench")
    figures = json.loads(REPORT.read_text())["figures"]
    missed = [figure for figure in figures if not figure["reached"]]
    for figure in missed:
        found = figure["ratio"] or figure["values"]
        print(f"{figure['name']}: {found}, must reach {figure['must']}")
    print(f"{len(figures) - len(missed)} of {len(figures)} figures reach what they must")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
