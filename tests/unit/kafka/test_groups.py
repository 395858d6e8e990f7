"""What the brokers' answers about a whole group mean."""

import pytest

from twophase.errors import AccessDenied, CommitRejected, ConfigurationError
from twophase.kafka import answers
from twophase.kafka.answers import Retry, meaning
from twophase.kafka.groups import DELETE_GROUPS


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (14, Retry.AGAIN),  # COORDINATOR_LOAD_IN_PROGRESS
        (16, Retry.AGAIN_ELSEWHERE),  # NOT_COORDINATOR
        (24, ConfigurationError),  # INVALID_GROUP_ID
        (30, AccessDenied),  # GROUP_AUTHORIZATION_FAILED
        (68, ConfigurationError),  # NON_EMPTY_GROUP
        (-1, CommitRejected),
    ],
)
def test_deleting_a_group(code, expected):
    """Members are in the way, and an answer that is not known is never success."""
    assert meaning(DELETE_GROUPS, code) is expected


def test_the_table_is_the_coordinators_and_two_more():
    """Success and a group that is gone are in no table: the second is taken for done."""
    assert set(DELETE_GROUPS) - set(answers.DESCRIBE_TRANSACTIONS) == {24, 68}
    assert not {0, 69} & set(DELETE_GROUPS)
