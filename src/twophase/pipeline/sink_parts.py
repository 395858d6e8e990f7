"""The sinks of a file one by one: settings gathered, checked by their classes, ready to be made."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final

from twophase.errors import ConfigurationError
from twophase.guarantee import Guarantee
from twophase.kafka.option_table import PREFIX
from twophase.options import MASK, Secret
from twophase.pipeline.filling import fill_kafka, fill_url
from twophase.pipeline.mistakes import Where
from twophase.pipeline.model import SinkPart
from twophase.pipeline.objects import NotFound, Objects
from twophase.pipeline.reach import reach_kafka, reach_postgres
from twophase.pipeline.reading import Reader, name_of
from twophase.pipeline.shared import Shared
from twophase.pipeline.sinks import (
    checked,
    kafka_sink,
    maker,
    postgres_sink,
    promise_of,
    python_sink,
)

_SERVERS: Final = PREFIX + "bootstrap.servers"
_KAFKA: Final = (
    "topic",
    "marker_topic",
    "source_group",
    "path",
    "scope",
    "decisions",
    "on_lost",
    "pool_size",
    "on_reject",
    "dead_letter_topic",
)


class SinkReader:
    """Reads sinks; `shared` are the options of all of Kafka's."""

    def __init__(
        self, reader: Reader, shared: Shared, guarantee: Guarantee, objects: Objects
    ) -> None:
        self._reader, self._shared, self._absent = reader, shared.options, shared.absent
        self._guarantee, self._objects = guarantee, objects

    def read(self, found: list[Any]) -> list[SinkPart]:
        """Return the sinks that are right, with the mistakes of the others noted."""
        parts = []
        ids: dict[str, int] = {}
        for at, each in enumerate(found):
            if each is None or each[1] is None:
                continue
            kind, given = each
            where = ("sinks", at, kind)
            sink_id = given["sink_id"]
            if sink_id is not None and sink_id in ids:
                said = f"sink_id {sink_id} is that of sinks[{ids[sink_id]}]; give each its own"
                self._reader.mistakes.add((*where, "sink_id"), said)
            ids.setdefault(sink_id, at)
            read = {"kafka": self._kafka, "postgres": self._postgres, "python": self._python}
            part = read[kind](given, where)
            parts += [part] if part is not None else []
        return parts

    def _kafka(self, given: Mapping[str, Any], where: Where) -> SinkPart | None:
        own = fill_kafka(self._reader, given["options"] or {}, (*where, "options"))
        taken = {name.strip().lower() for name in own}
        shared = {name: text for name, text in self._shared.items() if name not in taken}
        options = {**shared, **own}
        settings = {name: given[name] for name in _KAFKA if given[name] is not None}
        settings |= {"options": options, "guarantee": self._guarantee.value}

        def place(name: str) -> Where:
            return ("kafka", name) if name in shared else (*where, "options", name)

        servers = next((t for n, t in options.items() if n.strip().lower() == _SERVERS), "")
        hidden = {place(name) for name in options} & self._reader.hidden
        masked = any(str(at[-1]).strip().lower() == _SERVERS for at in hidden)
        shown = {
            "topic": given["topic"] or "the column topic",
            "servers": MASK if masked else servers,
            "scope": given["scope"] or "",
            "dead_letter_topic": given["dead_letter_topic"] or "",
        }
        named = (given["topic"], given["marker_topic"], given["dead_letter_topic"])
        topics = [name for name in named if name]
        reach = partial(reach_kafka, options, topics)
        return self._part(
            kafka_sink,
            settings,
            given,
            where,
            shown=shown,
            reach=reach,
            place=place,
            absent=[*self._absent, *(set(given["options"] or {}) - set(own))],
        )

    def _postgres(self, given: Mapping[str, Any], where: Where) -> SinkPart | None:
        raw = self._reader.raw.get((*where, "url"))
        url = fill_url(self._reader, raw.text.strip(), (*where, "url")) if raw else None
        # What is missing or wrong is noted already; a name in its place lets the rest be checked.
        table = given["table"] or "unnamed"
        settings = {"url": url or "host=unnamed", "table": table, "key": given["key"] or ()}
        shown = {"table": table, "url": MASK if url is None else _shown_url(url)}
        if given["key"]:
            shown["key"] = ", ".join(given["key"])
        reach = partial(reach_postgres, Secret(url or ""))
        return self._part(postgres_sink, settings, given, where, shown=shown, reach=reach)

    def _python(self, given: Mapping[str, Any], where: Where) -> SinkPart | None:
        if given["name"] is None:
            return None
        try:
            made_by = self._objects.find(given["name"])
        except NotFound as error:
            self._reader.mistakes.add((*where, "name"), str(error))
            return None
        settings = {
            "made_by": made_by,
            "arguments": given["arguments"] or {},
            "on_lost": given["on_lost"],
        }
        if given["decisions"] is not None:
            settings["decisions"] = given["decisions"]
        return self._part(python_sink, settings, given, where, shown={"name": given["name"]})

    def _part(
        self,
        make: Any,
        settings: Mapping[str, Any],
        given: Mapping[str, Any],
        where: Where,
        *,
        shown: Mapping[str, str],
        reach: Callable[[], None] = lambda: None,
        place: Any = None,
        absent: Collection[str] = (),
    ) -> SinkPart | None:
        if given["sink_id"] is None:
            # Noted already; another name lets the class find what else is wrong.
            settings = {**settings, "sink_id": "unnamed"}
        else:
            settings = {**settings, "sink_id": given["sink_id"]}
        mistakes = self._reader.mistakes
        try:
            required = ("sink_id", "url", "table")
            sink = checked(
                make, settings, where, mistakes, required=required, absent=absent, place=place
            )
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's own class may raise anything
            said = f"{type(error).__name__}: {error}"
            mistakes.add(where, f"{name_of(where)} could not be made: {said}")
            return None
        if sink is None or given["sink_id"] is None:
            return None
        return SinkPart(
            kind=str(where[-1]),
            sink_id=given["sink_id"],
            sql=given["sql"],
            make=maker(make, settings),
            reach=reach,
            promises=promise_of(make, sink, self._guarantee),
            topic=given.get("topic"),
            shown=shown,
            where=where,
        )


def _shown_url(url: str) -> str:
    """Return host, port and database; the sink itself says what is wrong with an address."""
    from twophase.postgres.connection import place_of  # noqa: PLC0415 - needs the extra postgres

    try:
        return place_of(Secret(url))
    except ConfigurationError:
        return MASK
