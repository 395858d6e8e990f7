"""A topic's settings are believed only where a broker has told them, or has refused to."""

from types import SimpleNamespace

import pytest

from twophase.errors import StoreUnavailable
from twophase.kafka.topic_rules import NO_RULE, TopicRules

UNKNOWN_TOPIC, DENIED = 3, 29


class Told:
    """A wire with prepared answers: error codes, or 0 for a limit of 7,000,000 bytes."""

    def __init__(self, *codes):
        self.codes = list(codes)
        self.broken = False
        self.now_s = 0.0
        self.clock = SimpleNamespace(now_s=lambda: self.now_s, sleep=self._sleep)
        self.options = SimpleNamespace(max_block_ms=1_000, retry_backoff_ms=100)

    def _sleep(self, delay_s):
        self.now_s += delay_s

    def ask_until_answered(self, request):
        """Answer by the next code; the last one stays."""
        request()
        code = self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]
        if isinstance(code, Exception):
            raise code
        configs = [SimpleNamespace(name="max.message.bytes", value="7000000")]
        row = SimpleNamespace(error_code=code, configs=[] if code else configs)
        return SimpleNamespace(results=[row])


def test_a_broker_that_does_not_know_the_topic_yet_is_asked_again():
    """What it answers then is the rule."""
    assert TopicRules(lambda: Told(UNKNOWN_TOPIC, UNKNOWN_TOPIC, 0))["t"].block_bytes == 7_000_000


def test_only_a_refusal_means_no_rule():
    """It is remembered: rights are asked for once."""
    wire = Told(DENIED)
    rules = TopicRules(lambda: wire)
    assert rules["t"] is NO_RULE
    wire.codes = [0]
    assert rules["t"] is NO_RULE


@pytest.mark.parametrize("trouble", [UNKNOWN_TOPIC, StoreUnavailable("no answer")])
def test_trouble_is_no_rule_of_the_topic(trouble):
    """It is raised, and the next row asks again."""
    wire = Told(trouble)
    rules = TopicRules(lambda: wire)
    with pytest.raises(StoreUnavailable):
        rules["t"]
    wire.codes = [0]
    assert rules["t"].block_bytes == 7_000_000
