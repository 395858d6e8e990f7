"""What `twophase verify` works on: a cluster, a folder, and rows of its own or a pipeline's."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from twophase.cli.connection import kafka_texts
from twophase.embedded import EmbeddedKafka
from twophase.errors import ConfigurationError, TwoPhaseError

if TYPE_CHECKING:
    from twophase.verify.proof import ProofPlan


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says of where and what."""

    bootstrap_server: str | None
    command_config: Path | None
    embedded: str | None
    pipeline: Path | None
    id_column: str | None
    report: Path | None
    output: str


@dataclass(frozen=True, slots=True, repr=False)
class Proving:
    """How something is proved, and of what; the texts of the connection may hold secrets.

    `suffixes` end the names of the topics, `conf` is Spark's settings, `rows` is how many there
    are, None where nobody knows.
    """

    prove: Any
    suffixes: tuple[str, ...]
    texts: dict[str, str]
    plan: "ProofPlan"
    what: str
    conf: Mapping[str, str]
    rows: int | None = None


def own_rows(texts: dict[str, str], plan: "ProofPlan") -> Proving:
    """Return what proves the sink by rows of the verification's own."""
    from twophase.verify.proof import SOURCE, TARGET, prove  # noqa: PLC0415

    what = f"KafkaSink, {plan.guarantee}, on {texts['kafka.bootstrap.servers']}"
    return Proving(partial(prove, texts), (SOURCE, TARGET), texts, plan, what, plan.conf, plan.rows)


def of_pipeline(asked: Asked, plan: "ProofPlan") -> Proving:
    """Return what proves a pipeline by its ids."""
    from twophase.pipeline.load import load_pipeline  # noqa: PLC0415
    from twophase.pipeline.verifying import verifiable  # noqa: PLC0415
    from twophase.verify.pipeline_proof import REFERENCE, Subject, prove_pipeline  # noqa: PLC0415
    from twophase.verify.proof import SOURCE, TARGET  # noqa: PLC0415

    file = asked.pipeline or Path()
    loaded = load_pipeline(file)
    what = verifiable(loaded)
    subject = Subject(file, asked.id_column or "", what)
    plan = replace(plan, guarantee=loaded.guarantee)
    return Proving(
        partial(prove_pipeline, subject),
        (SOURCE, TARGET, REFERENCE),
        dict(what.sink_options),
        plan,
        f"{file}, {plan.guarantee}, ids by {asked.id_column}",
        {**loaded.conf, **plan.conf},
    )


@contextmanager
def cluster_of(asked: Asked) -> Iterator[tuple[dict[str, str], tuple[Any, ...]]]:
    """Yield the options of a connection, and the brokers that may be hurt."""
    if asked.pipeline is not None:
        yield {}, ()
        return
    if asked.embedded is None:
        yield kafka_texts(asked.bootstrap_server, asked.command_config), ()
        return
    with EmbeddedKafka(nodes=int(asked.embedded)) as cluster:
        yield {"kafka.bootstrap.servers": cluster.bootstrap_servers}, cluster.nodes


@contextmanager
def folder_for() -> Iterator[Path]:
    """Yield a folder for checkpoint and logs; where something fails, the driver's log is kept."""
    with tempfile.TemporaryDirectory(
        prefix="twophase-verify-", ignore_cleanup_errors=True
    ) as folder:
        try:
            yield Path(folder)
        except ConfigurationError:
            raise
        except TwoPhaseError:
            for log in Path(folder).glob("*/driver.log"):
                kept = tempfile.mkdtemp(prefix="twophase-verify-log-")
                click.echo(f"the driver's log is {shutil.copy(log, kept)}", err=True)
            raise
