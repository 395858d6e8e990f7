"""Topics that are deleted and made anew under a transaction: their blocks went with the old one.

A broker acknowledges a block, the topic is deleted, a new one of the same name takes its place, and
EndTxn succeeds all the same: the batch counts as committed and is nowhere. Only its id tells.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from twophase.errors import CommitRejected
from twophase.kafka.leaders import leaders_request, topic_ids_in
from twophase.kafka.wire import Wire


class TopicIds:
    """The ids that the topics of one batch had before its first block was sent."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._before: dict[str, Any] = {}

    def remember(self, topics: Iterable[str], known: Mapping[str, Any] | None = None) -> None:
        """Take the ids that are known of the batch's topics, and ask for the others now."""
        names, known = set(topics), known or {}
        here = {name: known[name] for name in names if name in known}
        self._before = here | self._ask(names - set(here))

    def confirm(self) -> None:
        """Raise where a topic is gone or has another id."""
        if not self._before:
            return
        now = self._ask(self._before)
        for topic, found in self._before.items():
            if now.get(topic) != found:
                raise CommitRejected(
                    f"topic {topic!r} was made anew while the batch was written: what it had "
                    "acknowledged went with the old one; nothing is committed"
                )

    def _ask(self, topics: Iterable[str]) -> dict[str, Any]:
        names = sorted(set(topics))
        if not names:
            return {}
        return topic_ids_in(self._wire.ask_until_answered(lambda: leaders_request(names)))
