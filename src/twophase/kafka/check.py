"""All that can be told of a sink's way to its topic before its first start; changes nothing."""

from collections.abc import Callable, Iterable, Iterator

from twophase.commit.naming import SinkName
from twophase.errors import TwoPhaseError
from twophase.kafka.check_brokers import REPLICAS, broker_findings, setting_findings, settings_of
from twophase.kafka.check_rights import letter_rights, right_findings
from twophase.kafka.check_sink import open_findings, sink_findings
from twophase.kafka.check_topics import (
    ask_topics,
    internal_findings,
    letter_findings,
    topic_findings,
)
from twophase.kafka.findings import Finding, unknown
from twophase.kafka.identity import TransactionVersion
from twophase.kafka.wire import Wire

PARTS = 7
LETTER_PARTS = 2


def findings(
    wire: Wire,
    name: SinkName,
    topic: str,
    advance: Callable[[], None],
    dead_letter_topic: str | None = None,
) -> list[Finding]:
    """Return every point; a part that gets no answer is not known, and the others go on."""
    letters = [] if dead_letter_topic is None else [dead_letter_topic]
    rows = ask_topics(wire, [topic, *letters, *REPLICAS])
    brokers = settings_of(wire)
    first = wire.transaction_version() is TransactionVersion.V1
    parts: tuple[tuple[str, Iterable[Finding]], ...] = (
        ("brokers", broker_findings(wire)),
        (
            "broker settings",
            setting_findings(brokers, wire.options.transaction_timeout_ms, first=first),
        ),
        ("topic", topic_findings(wire, topic, rows[topic])),
        *(("dead-letter topic", letter_findings(wire, each, rows[each])) for each in letters),
        ("internal topics", internal_findings(wire, rows, brokers)),
        ("rights", right_findings(wire, name, topic, rows[topic])),
        *(("rights", letter_rights(each, rows[each])) for each in letters),
        ("sink id", sink_findings(wire, name, topic)),
        ("open transactions", open_findings(wire, topic)),
    )
    found: list[Finding] = []
    for title, part in parts:
        found += _told(title, part)
        advance()
    return found


def _told(title: str, part: Iterable[Finding]) -> Iterator[Finding]:
    try:
        yield from part
    except TwoPhaseError as failure:
        yield unknown(title, str(failure), "mend what the message names, and check again")
