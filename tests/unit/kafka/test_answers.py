"""The verdict tables: every code of Kafka has a meaning, and none that is unknown is success."""

import kafka.errors as kafka_errors
import pytest

from twophase.errors import (
    CommitOutcomeUnknown,
    CommitRejected,
    EpochStale,
    Fenced,
    TwoPhaseError,
)
from twophase.kafka import answers
from twophase.kafka.answers import AGAIN_ELSEWHERE, Retry, meaning, name_of

TABLES = {
    name: table
    for name, table in vars(answers).items()
    if name.isupper() and not name.startswith("_") and hasattr(table, "items")
}
EVERY_CODE = range(-1, 200)


@pytest.mark.parametrize("name", TABLES)
def test_every_code_has_a_verdict_and_none_is_success(name):
    """For each request, each code from -1 to 199 is a retry or an error class."""
    assert len(TABLES) == 9
    for code in EVERY_CODE:
        if code == 0:
            continue
        verdict = meaning(TABLES[name], code)
        assert isinstance(verdict, Retry) or issubclass(verdict, TwoPhaseError)


@pytest.mark.parametrize("code", [-1, 46, 199])
def test_an_unknown_answer_to_a_commit_leaves_the_outcome_unknown(code):
    """A code without an entry is doubt after EndTxn, and a refusal after anything else."""
    assert meaning(answers.END_TXN, code) is CommitOutcomeUnknown
    assert meaning(answers.PRODUCE, code) is CommitRejected


def test_only_init_producer_id_says_fenced():
    """PRODUCER_FENCED is final only where the broker tells a rival from its own timeout."""
    fenced = {name for name, table in TABLES.items() if Fenced in table.values()}
    assert fenced == {"INIT_PRODUCER_ID"}
    assert meaning(answers.END_TXN, 90) is EpochStale
    assert meaning(answers.PRODUCE, 47) is EpochStale


def test_a_moved_coordinator_is_looked_for_again():
    """NOT_COORDINATOR asks elsewhere in every table."""
    assert all(meaning(table, 16) is AGAIN_ELSEWHERE for table in TABLES.values())


def test_what_the_library_retries_and_a_produce_does_not():
    """Of what kafka-python calls retriable, only answers to other requests stop a sender."""
    stopping = {
        name_of(code)
        for code in EVERY_CODE
        if getattr(kafka_errors.for_code(code), "retriable", False)
        and not isinstance(meaning(answers.PRODUCE, code), Retry)
    }
    assert stopping == {
        "NOT_CONTROLLER (41)",
        "FETCH_SESSION_ID_NOT_FOUND (70)",
        "INVALID_FETCH_SESSION_EPOCH (71)",
        "LISTENER_NOT_FOUND (72)",
        "OFFSET_NOT_AVAILABLE (78)",
        "PREFERRED_LEADER_NOT_AVAILABLE (80)",
        "ELIGIBLE_LEADERS_NOT_AVAILABLE (83)",
        "ELECTION_NOT_NEEDED (84)",
        "UNSTABLE_OFFSET_COMMIT (88)",
        "UNKNOWN_TOPIC_ID (100)",
        "INCONSISTENT_TOPIC_ID (103)",
        "FETCH_SESSION_TOPIC_ID_ERROR (106)",
        "SHARE_SESSION_NOT_FOUND (122)",
        "INVALID_SHARE_SESSION_EPOCH (123)",
    }
