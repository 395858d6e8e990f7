"""A pipeline whose file was found right: plain data, and what makes its sinks.

Texts may hold what came from references, so no repr shows any.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from twophase.guarantee import Guarantee
from twophase.observe import Hook
from twophase.pipeline.document import Scalar
from twophase.pipeline.mistakes import Mistakes, Where
from twophase.pipeline.references import References


class MakeSink(Protocol):
    """Makes a sink anew."""

    def __call__(self, hooks: Iterable[Hook]) -> Any:
        """Return the sink with these hooks."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Source:
    """What Spark's reader is told; options may hold secrets, `shown` does not; see `SinkPart`."""

    kind: str
    view: str
    format: str
    options: Mapping[str, str]
    schema: str | None = None
    path: str | None = None
    reach: Callable[[], None] = field(default=lambda: None)
    shown: Mapping[str, str]

    def __repr__(self) -> str:
        return f"<Source {self.kind}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A query on views, or a function of one: what comes out is the view's."""

    view: str
    sql: str | None = None
    python: str | None = None
    function: Callable[..., Any] | None = None
    source: str
    where: Where


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SinkPart:
    """One sink: `make` returns a new one, with hooks; `topic` is what Kafka's columns go by.

    `reach` raises where its store does not answer, before Spark has to wait for it.
    """

    kind: str
    sink_id: str
    sql: str | None
    make: MakeSink
    reach: Callable[[], None] = field(default=lambda: None)
    promises: str
    topic: str | None = None
    shown: Mapping[str, str]
    where: Where

    def __repr__(self) -> str:
        return f"<SinkPart {self.kind} {self.sink_id}>"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Pipeline:
    """Everything that a run needs to know; `metrics` is an address and a port."""

    file: Path
    name: str
    source: Source
    steps: tuple[Step, ...]
    sinks: tuple[SinkPart, ...]
    checkpoint: str
    trigger: str
    output_mode: str
    guarantee: Guarantee
    restarts: int
    metrics: tuple[str, int] | None
    master: str
    conf: Mapping[str, str]
    secret_conf: frozenset[str]
    modules: tuple[Path, ...]
    mistakes: Mistakes
    references: References
    raw: Mapping[Where, Scalar]

    def __repr__(self) -> str:
        return f"<Pipeline {self.name}>"

    @property
    def last_view(self) -> str:
        """The view whose rows go to the sinks."""
        return self.steps[-1].view if self.steps else self.source.view

    def reach(self) -> None:
        """Raise where a store does not answer, or a topic is not there."""
        self.source.reach()
        for sink in self.sinks:
            sink.reach()
