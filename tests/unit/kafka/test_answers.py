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


def said(name):
    """A table as the broker's words and ours."""
    return {
        name_of(code).split(" ")[0]: verdict.name
        if isinstance(verdict, Retry)
        else verdict.__name__
        for code, verdict in TABLES[name].items()
    }


COORDINATOR = {
    "REQUEST_TIMED_OUT": "AGAIN",
    "NETWORK_EXCEPTION": "AGAIN_ELSEWHERE",
    "COORDINATOR_LOAD_IN_PROGRESS": "AGAIN",
    "COORDINATOR_NOT_AVAILABLE": "AGAIN_ELSEWHERE",
    "NOT_COORDINATOR": "AGAIN_ELSEWHERE",
    "CONCURRENT_TRANSACTIONS": "AGAIN",
    "THROTTLING_QUOTA_EXCEEDED": "AGAIN",
    "TOPIC_AUTHORIZATION_FAILED": "AccessDenied",
    "GROUP_AUTHORIZATION_FAILED": "AccessDenied",
    "CLUSTER_AUTHORIZATION_FAILED": "AccessDenied",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "AccessDenied",
}
IDENTITY = {
    "INVALID_PRODUCER_EPOCH": "EpochStale",
    "INVALID_TXN_STATE": "InvalidState",
    "INVALID_PRODUCER_ID_MAPPING": "EpochStale",
    "UNKNOWN_PRODUCER_ID": "EpochStale",
    "PRODUCER_FENCED": "EpochStale",
    "TRANSACTION_ABORTABLE": "InvalidState",
}


def test_the_tables_say_what_they_are_meant_to():
    """Every request that decides about a transaction, pinned in the broker's own words."""
    assert said("END_TXN") == COORDINATOR | IDENTITY
    assert said("ADD_OFFSETS") == COORDINATOR | IDENTITY
    assert said("DESCRIBE_TRANSACTIONS") == COORDINATOR
    assert said("INIT_PRODUCER_ID") == COORDINATOR | {
        "INVALID_PRODUCER_EPOCH": "Fenced",
        "PRODUCER_FENCED": "Fenced",
        "INVALID_TRANSACTION_TIMEOUT": "ConfigurationError",
    }
    assert said("TXN_OFFSET_COMMIT") == COORDINATOR | IDENTITY | {
        "UNKNOWN_TOPIC_OR_PARTITION": "AGAIN",
        "OFFSET_METADATA_TOO_LARGE": "ConfigurationError",
        "INVALID_GROUP_ID": "ConfigurationError",
    }
    assert said("PRODUCE").items() >= (COORDINATOR | IDENTITY).items()


@pytest.mark.parametrize("name", TABLES)
def test_success_is_in_no_table(name):
    """Zero is the one code that means done, and no table gives it another meaning."""
    assert len(TABLES) == 9
    assert 0 not in TABLES[name]
    assert all(
        isinstance(verdict, Retry) or issubclass(verdict, TwoPhaseError)
        for verdict in TABLES[name].values()
    )


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
