"""All that can be told of a sink's way to its topic before its first start; changes nothing."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn, TypeVar

from twophase.errors import TwoPhaseError
from twophase.kafka.check_brokers import (
    REPLICAS,
    ask_brokers,
    broker_findings,
    setting_findings,
    settings_of,
)
from twophase.kafka.check_rights import right_findings
from twophase.kafka.check_setup import Setup
from twophase.kafka.check_sink import open_findings, sink_findings
from twophase.kafka.check_topics import (
    ask_topics,
    internal_findings,
    letter_findings,
    there_finding,
    topic_findings,
)
from twophase.kafka.findings import Finding, unknown
from twophase.kafka.identity import TransactionVersion
from twophase.kafka.rights import TOPIC
from twophase.kafka.wire import Wire

T = TypeVar("T")


def findings(wire: Wire, setup: Setup, start: Callable[[int], Callable[[], None]]) -> list[Finding]:
    """Return every point; a part that gets no answer is not known, and the others go on.

    `start` is told how many parts there are, and returns what is called after each.
    """
    brokers = ask_brokers(wire)
    found = list(broker_findings(brokers))
    if not brokers.answers:
        return [*found, _nothing_else()]
    topics = _asked(lambda: ask_topics(wire, [*setup.used(TOPIC), *REPLICAS]))
    first = _asked(lambda: wire.transaction_version() is TransactionVersion.V1)
    settings = _asked(lambda: settings_of(wire, brokers))
    parts = _parts(wire, setup, topics, first, settings)
    advance = start(len(parts))
    for title, part in parts:
        found += _told(title, part)
        advance()
    return found


def _parts(
    wire: Wire,
    setup: Setup,
    topics: Callable[[], dict[str, Any]],
    first: Callable[[], bool],
    settings: Callable[[], dict[int, dict[str, str | None] | None]],
) -> list[tuple[str, Callable[[], Iterable[Finding]]]]:
    timeout_ms, dead = wire.options.transaction_timeout_ms, setup.dead_letter_topic

    def others() -> Iterator[Finding]:
        for name in setup.used(TOPIC):
            if name not in setup.written:
                kind = "marker topic" if name == setup.marker_topic else "source topic"
                yield there_finding(kind, setup, name, topics()[name])

    def written() -> list[str]:
        return [name for name in setup.written if not topics()[name].error_code]

    parts: list[tuple[str, Callable[[], Iterable[Finding]]]] = [
        (
            "broker settings",
            lambda: setting_findings(
                settings(), timeout_ms, first=first(), may_grow=not setup.by_task
            ),
        ),
        ("topic", lambda: topic_findings(wire, setup, topics()[setup.topic])),
        ("other topics", others),
        ("internal topics", lambda: internal_findings(wire, topics(), settings())),
        ("rights", lambda: right_findings(wire, setup, topics)),
        ("sink id", lambda: sink_findings(wire, setup.name, setup.marker_topic)),
        ("open transactions", lambda: open_findings(wire, written())),
    ]
    if dead is not None:
        parts.insert(
            2, ("dead-letter topic", lambda: letter_findings(wire, setup, dead, topics()[dead]))
        )
    return parts


def _asked(ask: Callable[[], T]) -> Callable[[], T]:
    """Ask once; each point that rests on the answer gets it, or the same failure."""
    try:
        answer = ask()
    except TwoPhaseError as caught:
        failure = caught

        def fail() -> NoReturn:
            raise failure

        return fail
    return lambda: answer


def _nothing_else() -> Finding:
    return unknown(
        "all other points",
        "no broker answers at the address that it advertises",
        "mend that first (advertised.listeners, firewall, names), and check again",
    )


def _told(title: str, part: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    try:
        yield from part()
    except TwoPhaseError as failure:
        yield unknown(title, str(failure), "mend what the message names, and check again")
