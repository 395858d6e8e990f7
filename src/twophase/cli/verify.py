"""`twophase verify`: the proof on the user's own cluster, under the faults that the user allows."""

import re
from dataclasses import fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from twophase.cli.connection import connection_options, patient
from twophase.cli.failing import INTERRUPTED, Failure
from twophase.cli.output import output_option, show
from twophase.cli.progress import meter
from twophase.cli.report_file import check_writable, written
from twophase.cli.run_spark import term_interrupts
from twophase.cli.verify_conf import read_conf
from twophase.cli.verify_parts import Asked, cluster_of, folder_for, of_pipeline, own_rows
from twophase.cli.verify_text import Result, result_of, text_of
from twophase.errors import ConfigurationError, SetupError, TwoPhaseError
from twophase.guarantee import Guarantee

if TYPE_CHECKING:
    from twophase.verify.belongings import Belongings
    from twophase.verify.proof import ProofPlan

_WRONG_USE, _UNPROVED = 2, 3
_TIME = re.compile(r"([0-9]{1,6})(s|m|h)")
_UNITS_S = {"s": 1, "m": 60, "h": 3600}
_SHORTEST_S, _LONGEST_S = 10, 86_400
_ROWS_MAX = 100_000_000

_EXAMPLE = """\b
Example: a minute on a cluster of yours; brokers killed on one of this machine; the numbers
  twophase verify --bootstrap-server broker-1:9092 --report proof.html
  twophase verify --embedded 3 --for 5m --faults kill-driver,pause,kill-broker
  twophase verify --command-config client.properties --output json | jq .faults
\b
Example: a pipeline of your own
  twophase verify --pipeline orders.yaml --id-column order_id
"""


class _Time(click.ParamType[float]):
    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return seconds."""
        if isinstance(value, float):
            return value
        found = _TIME.fullmatch(value.strip())
        seconds = int(found[1]) * _UNITS_S[found[2]] if found else 0
        if not _SHORTEST_S <= seconds <= _LONGEST_S:
            self.fail(f"{value!r} is no time from 10s to 24h; write 90s, 5m or 2h", param, ctx)
        return float(seconds)


@click.command(epilog=_EXAMPLE)
@connection_options
@click.option(
    "--embedded",
    type=click.Choice(["1", "3"]),
    is_flag=False,
    flag_value="1",
    help="On a cluster of this machine instead, of 1 or 3 brokers, gone at the end.",
)
@click.option(
    "--for", "seconds", type=_Time(), default="60s", show_default=True, help="How long faults come."
)
@click.option(
    "--rate",
    type=click.IntRange(1, 1_000_000),
    default=1_000,
    show_default=True,
    help="Rows per second.",
)
@click.option(
    "--faults",
    default="kill-driver,pause",
    show_default=True,
    metavar="NAME,...",
    help="What may be done: kill-driver, kill-executor, pause; with --embedded also kill-broker.",
)
@click.option("--partitions", type=click.IntRange(1, 1_000), help="Of each topic.  [default: 4]")
@click.option(
    "--replication-factor", type=click.IntRange(1, 9), help="[default: as the brokers say]"
)
@click.option(
    "--guarantee",
    type=click.Choice([each.value for each in Guarantee]),
    help="What the sink is asked for; less than exactly-once shows that harm is found.  "
    "[default: exactly-once]",
)
@click.option("--master", metavar="URL", help="Where Spark runs.  [default: local[2]]")
@click.option(
    "--conf",
    metavar="NAME=VALUE",
    multiple=True,
    help="A setting of Spark, before those of a pipeline's file; may be given several times.",
)
@click.option(
    "--pipeline",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE.yaml",
    help="Verify this pipeline of twophase run instead, from one Kafka topic to one Kafka sink.",
)
@click.option(
    "--id-column",
    metavar="NAME",
    help="With --pipeline: the field of the JSON value that identifies a row, or key.",
)
@click.option("--seed", type=click.IntRange(0), default=0, help="Another order of faults.")
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.html",
    help="Write a report with plots.",
)
@output_option
@click.pass_context
def verify(context: click.Context, /, **given: Any) -> None:
    """Prove on your own cluster that no fault loses, doubles, tears or reorders a row.

    Makes two topics under a random prefix, fills one with rows that carry a number and a checksum,
    and lets a Spark query copy them to the other through KafkaSink while the faults come: the
    driver killed with -9 in the middle of a batch, frozen, executors and brokers killed. A
    read_committed reader watches all along. In the end every row is counted, and the topics are
    deleted, also after a failure or Ctrl-C. No other topic, group or id is touched.

    With --pipeline your own file is run by the code of twophase run, between topics of the
    verification: the first rows of its source topic, --rate times --for at most, are copied, and
    the pipeline runs over them once without faults and once under them, with a sink id, checkpoint
    and output topics of its own. Each id must be there once in the second run, and be one of the
    first. It cannot see: what your steps do elsewhere, values that differ under the same id, torn
    batches, the order of rows, and rows that depend on the time or on where a batch ends.

    Exit codes: 0 nothing was lost, doubled, torn, reordered or left open; 1 something was; 2 the
    command is wrong; 3 nothing was proved: no broker, no time for a fault, a query that never
    worked; 130 interrupted.
    """
    asked = Asked(**{each.name: given.pop(each.name) for each in fields(Asked)})
    made: list[Belongings] = []
    try:
        _check(asked)
        plan = _plan(asked, **given)
        with term_interrupts():
            result = _verify(asked, plan, made)
    except ConfigurationError as error:
        raise _WrongUse(str(error), _left(made)) from error
    except TwoPhaseError as error:
        raise _Unproved(f"nothing was proved: {error}", _left(made)) from error
    except KeyboardInterrupt:
        if left := _left(made):
            raise _Interrupted("interrupted", left) from None
        raise
    except (click.ClickException, click.Abort, click.exceptions.Exit):
        raise
    except Exception as error:
        # Not 1, which says that harm was found: only a verdict may.
        said = f"nothing was proved: {type(error).__name__}: {error}"
        raise _Unproved(said, _left(made)) from error
    show(result, asked.output, *text_of(result))
    context.exit(result.code)


class _WrongUse(Failure):
    exit_code = _WRONG_USE


class _Unproved(Failure):
    exit_code = _UNPROVED


class _Interrupted(Failure):
    exit_code = INTERRUPTED


def _left(made: "list[Belongings]") -> dict[str, object]:
    """Return for programs what could not be deleted, where there is such; people were told."""
    left = [name for own in made for name in own.left]
    return {"left": left} if left else {}


def _check(asked: Asked) -> None:
    connection = asked.bootstrap_server or asked.command_config
    if asked.pipeline is not None:
        if connection or asked.embedded:
            _refuse(
                "--pipeline says itself where its cluster is; leave out all other options of it"
            )
        if asked.id_column is None:
            _refuse("--pipeline needs --id-column NAME: a field of the JSON value, or key")
    elif asked.id_column is not None:
        _refuse("--id-column belongs to --pipeline; without it rows have numbers of their own")
    elif asked.embedded is None and not connection:
        _refuse(
            "it is not known which cluster to verify on; give --bootstrap-server HOST:PORT, a "
            "--command-config FILE with bootstrap.servers, --embedded for one on this machine, or "
            "--pipeline FILE.yaml"
        )
    if asked.embedded is not None and connection:
        _refuse("--embedded makes its own cluster; leave out --bootstrap-server, or --embedded")
    if asked.report is not None:
        check_writable(asked.report)


def _refuse(said: str) -> NoReturn:
    raise ConfigurationError(said)


def _plan(
    asked: Asked,
    *,
    seconds: float,
    rate: int,
    faults: str,
    partitions: int | None,
    replication_factor: int | None,
    guarantee: str | None,
    master: str | None,
    conf: tuple[str, ...],
    seed: int,
) -> "ProofPlan":
    if find_spec("pyspark") is None:
        raise SetupError("pyspark is not installed; install twophase with its extra: spark")
    # Spark, Arrow and the Kafka client take seconds to import, which no other command should pay.
    from twophase.verify.allowed import master_for, read_names  # noqa: PLC0415
    from twophase.verify.proof import ProofPlan  # noqa: PLC0415
    from twophase.verify.topics import BY_DEFAULT, PARTITIONS  # noqa: PLC0415

    if asked.pipeline is not None and (partitions or guarantee):
        _refuse("--partitions and --guarantee are as the pipeline has them; leave them out")
    if seconds * rate > _ROWS_MAX:
        _refuse(
            f"--for and --rate make {int(seconds * rate):,} rows; at most {_ROWS_MAX:,} can be "
            "checked in one run: lower one of them"
        )
    names = read_names(faults)
    where = master_for(names, master, embedded=asked.embedded is not None)
    return ProofPlan(
        seconds=seconds,
        rows_per_s=rate,
        faults=names,
        master=where,
        conf=read_conf(conf, where),
        guarantee=Guarantee(guarantee or Guarantee.EXACTLY_ONCE),
        partitions=partitions or PARTITIONS,
        replicas=replication_factor or BY_DEFAULT,
        seed=seed,
    )


def _verify(asked: Asked, plan: "ProofPlan", made: "list[Belongings]") -> Result:
    """Return what came of it; `made` is told what is made in the cluster, before it is."""
    from twophase.spark.session import connector_jars  # noqa: PLC0415
    from twophase.verify.belongings import belongings  # noqa: PLC0415

    with cluster_of(asked) as (texts, nodes), folder_for() as folder:
        proving = own_rows(texts, plan) if asked.pipeline is None else of_pipeline(asked, plan)
        options = patient(proving.texts)
        with belongings(
            options, proving.suffixes, lambda words: click.echo(words, err=True)
        ) as own:
            made.append(own)
            # Once the cluster has answered: a wrong address should not cost a download.
            connector_jars(proving.conf)
            with meter("rows visible", proving.rows) as moved:
                proof = proving.prove(
                    own.prefix,
                    folder,
                    proving.plan,
                    nodes=nodes,
                    told=lambda rows, faults: moved(rows, _faults_text(faults)),
                )
        result = result_of(proof, proving.plan, own, proving.what)
        if asked.report is None:
            return result
        report = written(asked.report, proof.history, [proof.verdict], result.about)
        return replace(result, report=report)


def _faults_text(faults: Any) -> str:
    return ", ".join(f"{name} {count}" for name, count in faults.items())
