"""All that can be told of a sink's way to its topic before its first start; changes nothing."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn, TypeVar

from twophase.errors import TwoPhaseError
from twophase.kafka.check_brokers import (
    REPLICAS,
    Brokers,
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
# A title, and what yields its points.
Part = tuple[str, Callable[[], Iterable[Finding]]]


def findings(wire: Wire, setup: Setup, start: Callable[[int], Callable[[], None]]) -> list[Finding]:
    """Return every point; a part that gets no answer is not known, and the others go on.

    `start` is told how many parts there are, and returns what is called after each.
    """
    brokers = ask_brokers(wire)
    found = list(broker_findings(brokers, transactional=setup.transactional))
    if not brokers.answers:
        return [*found, _nothing_else()]
    internal = REPLICAS if setup.transactional else ()
    topics = _asked(lambda: ask_topics(wire, [*setup.used(TOPIC), *internal]))
    parts = _parts(wire, setup, brokers, topics)
    advance = start(len(parts))
    for title, part in parts:
        found += _told(title, part)
        advance()
    return found


def _parts(
    wire: Wire, setup: Setup, brokers: Brokers, topics: Callable[[], dict[str, Any]]
) -> list[Part]:
    """Return what is asked of a sink with this guarantee, in the order in which it is told."""
    dead = setup.dead_letter_topic

    def there() -> list[str]:
        return [name for name in setup.written if not topics()[name].error_code]

    written: list[Part] = [
        ("topic", lambda: topic_findings(wire, setup, topics()[setup.topic])),
    ]
    if dead is not None:
        written.append(
            ("dead-letter topic", lambda: letter_findings(wire, setup, dead, topics()[dead]))
        )
    rights: Part = ("rights", lambda: right_findings(wire, setup, topics))
    # Whatever the rows are written with: who reads committed rows waits for each of them.
    still: Part = ("open transactions", lambda: open_findings(wire, there()))
    if not setup.transactional:
        return [*written, rights, still]
    settings, others = _of_transactions(wire, setup, brokers, topics)
    sink: Part = ("sink id", lambda: sink_findings(wire, setup.name, setup.marker_topic))
    return [settings, *written, *others, rights, sink, still]


def _of_transactions(
    wire: Wire, setup: Setup, brokers: Brokers, topics: Callable[[], dict[str, Any]]
) -> tuple[Part, list[Part]]:
    """Return the settings of brokers, and the topics beside those of the rows."""
    first = _asked(lambda: wire.transaction_version() is TransactionVersion.V1)
    settings = _asked(lambda: settings_of(wire, brokers))
    timeout_ms = wire.options.transaction_timeout_ms

    def others() -> Iterator[Finding]:
        for name in setup.used(TOPIC):
            if name not in setup.written:
                kind = "marker topic" if name == setup.marker_topic else "source topic"
                yield there_finding(kind, setup, name, topics()[name])

    def judged() -> Iterator[Finding]:
        return setting_findings(settings(), timeout_ms, first=first(), may_grow=not setup.by_task)

    return ("broker settings", judged), [
        ("other topics", others),
        ("internal topics", lambda: internal_findings(wire, topics(), settings())),
    ]


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
