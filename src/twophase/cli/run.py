"""`twophase run`: a pipeline from a file, checked whole before anything starts."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from traceback import extract_tb
from typing import Any

import click

from twophase.cli.output import JSON, output_option
from twophase.cli.run_json import JsonTeller, print_failure
from twophase.cli.run_output import complain, drop_unwritten, say_anything, unheard
from twophase.cli.run_spark import (
    quiet_logs,
    served_metrics,
    spark_session,
    term_interrupts,
)
from twophase.cli.run_text import TextTeller
from twophase.errors import SetupError, TwoPhaseError
from twophase.pipeline.endings import Ending, ending_of
from twophase.pipeline.mistakes import PipelineWrong
from twophase.pipeline.one_run import one_run
from twophase.pipeline.stopping import Stop

_EXAMPLE = """\b
Example: check and see what would be done; then until the source is used up; then for good
  twophase run orders.yaml --dry-run
  twophase run orders.yaml --available-now
  twophase run orders.yaml --master spark://cluster:7077
\b
A small pipeline:
  source:
    kafka: {topic: orders, options: {kafka.bootstrap.servers: "broker:9092"}}
  steps:
    - sql: SELECT key, upper(CAST(value AS STRING)) AS value FROM source
  sinks:
    - kafka:
        sink_id: orders-clean
        topic: orders-clean
        options: {kafka.bootstrap.servers: "broker:9092"}
  checkpoint: /data/checkpoints/orders
"""


@click.command(epilog=_EXAMPLE)
@click.argument(
    "pipeline", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--dry-run", is_flag=True, help="Check everything, show the plan, start nothing.")
@click.option("--available-now", is_flag=True, help="End when the source is used up.")
@click.option("--master", metavar="URL", help="Where Spark runs.  [default: as the file says]")
@click.option("--schema", is_flag=True, help="Print the JSON schema of the file, for editors.")
@click.option(
    "--spark-log",
    metavar="FILE",
    help="Where Spark's own log goes, - for stderr.  [default: a file, kept after a failure]",
)
@output_option
@click.pass_context
def run(
    context: click.Context,
    /,
    pipeline: Path | None,
    master: str | None,
    spark_log: str | None,
    output: str,
    *,
    dry_run: bool,
    available_now: bool,
    schema: bool,
) -> None:
    """Run a pipeline: from Kafka or files, over SQL or Python, to Kafka, PostgreSQL or your own.

    The file is checked whole before anything starts: every mistake is told at once, with line and
    column. Ctrl-C or SIGTERM finishes the batch under way and says where it stopped; a second one
    ends at once. docs/pipelines.md tells every key.

    Exit codes: 0 the source is used up, or stopped as asked; 1 failed, and starting again may help;
    2 the file or the command is wrong; 3 a person has to look; 4 another run is at work; 130
    ended at once. --output json prints one JSON object a line for each thing that happens.
    """
    if schema:
        from twophase.pipeline.schema import pipeline_schema  # noqa: PLC0415

        click.echo(json.dumps(pipeline_schema(), indent=2))
        return
    if pipeline is None:
        raise click.UsageError("give the file of a pipeline; --help shows a small one")
    asked = _Asked(pipeline, master, spark_log, output, dry_run, available_now)
    say_anything()
    try:
        _run(asked)
    except (TwoPhaseError, _Failed) as error:
        ending = error.ending if isinstance(error, _Failed) else ending_of(error)
        if output == JSON:
            print_failure(error, ending, error.code)
        else:
            complain(str(error))
        context.exit(int(ending))
    finally:
        drop_unwritten()


class _Failed(Exception):
    """A run that has ended in an error, told as it may be shown; `code` where it is one of ours."""

    def __init__(self, said: str, ending: Ending, code: str | None = None) -> None:
        super().__init__(said)
        self.ending, self.code = ending, code


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the command line says."""

    path: Path
    master: str | None
    spark_log: str | None
    output: str
    dry_run: bool
    available_now: bool


def _run(asked: _Asked) -> None:
    try:
        # From the first moment: without a handler SIGTERM ends the command without a word, and the
        # first process of a container does not even notice it.
        with term_interrupts():
            _load_and_run(asked)
    except KeyboardInterrupt:
        raise _Failed("interrupted", Ending.ABORTED) from None


def _load_and_run(asked: _Asked) -> None:
    _check_pyspark()
    # Spark, Arrow and the Kafka client take seconds to import, which no other command should pay.
    from twophase.pipeline.load import load_pipeline  # noqa: PLC0415

    loaded = None
    try:
        loaded = load_pipeline(asked.path)
        _run_loaded(loaded, asked)
    except (PipelineWrong, _Failed):
        raise
    except (Exception, SystemExit) as error:
        raise _failed(error, None if loaded is None else loaded.references.hide) from error


def _failed(error: BaseException, hide: Callable[[str], str] | None) -> _Failed:
    """Return any error as a sentence in which nothing is shown that came from a reference."""
    if isinstance(error, TwoPhaseError):
        return _Failed((hide or str)(str(error)), ending_of(error), error.code)
    name = type(error).__name__
    if hide is None:
        # What it says cannot be searched for secrets yet.
        last = extract_tb(error.__traceback__)[-1]
        at = f"{Path(last.filename).name}, line {last.lineno}"
        return _Failed(f"the pipeline could not be loaded: {name} in {at}", Ending.FAILED)
    from twophase.spark.pipeline_query import first_line  # noqa: PLC0415

    return _Failed(f"the run failed: {name}: {hide(first_line(error))}", Ending.FAILED)


def _run_loaded(loaded: Any, asked: _Asked) -> None:
    from twophase.pipeline.frames import make_views  # noqa: PLC0415
    from twophase.pipeline.runner import Runner  # noqa: PLC0415

    master = asked.master or loaded.master
    with (
        nullcontext() if asked.dry_run else one_run(loaded.checkpoint),
        quiet_logs(loaded.references.hide),
        spark_session(loaded, "local[1]" if asked.dry_run else master, asked.spark_log) as spark,
    ):
        frame = make_views(loaded, spark.session)
        _end_if_asked(spark.stop)
        if asked.dry_run:
            _show_plan(loaded, frame, master, asked)
            return
        loaded.reach()
        teller = JsonTeller() if asked.output == JSON else TextTeller()
        with served_metrics(loaded.metrics) as hooks:
            runner = Runner(
                loaded, frame, spark.stop, teller, available_now=asked.available_now, hooks=hooks
            )
            spark.at_once.runner = runner
            _end_if_asked(spark.stop)
            _at_work(loaded, runner, teller)


def _end_if_asked(stop: Stop) -> None:
    """End what has not begun yet: a signal is not looked at amid what Spark is asked."""
    if stop.asked:
        raise KeyboardInterrupt


def _show_plan(loaded: Any, frame: Any, master: str, asked: _Asked) -> None:
    from twophase.pipeline.plan import plan_of  # noqa: PLC0415

    plan = plan_of(loaded, frame, master, available_now=asked.available_now)
    lines = [json.dumps(plan.data, indent=2)] if asked.output == JSON else plan.lines
    click.echo("\n".join(lines))


def _at_work(loaded: Any, runner: Any, teller: Any) -> None:
    from twophase.spark.pipeline_query import first_line  # noqa: PLC0415

    try:
        with teller:
            ended = runner.run()
            # It has ended so, whether anybody hears it or not.
            with unheard():
                teller(ended)
    except TwoPhaseError:
        raise
    except Exception as error:
        said = loaded.references.hide(first_line(error))
        raise _Failed(f"the query failed: {said}", Ending.FAILED) from error


def _check_pyspark() -> None:
    if find_spec("pyspark") is None:
        raise SetupError("pyspark is not installed; install twophase with its extra: spark")
