"""What Kafka refuses to Spark's source is told by what to grant, and no other error is."""

import pytest

from twophase.errors import Fenced
from twophase.spark.pipeline_query import refusal_of

TASK = (
    "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage "
    "failure: Task 0 in stage 0.0 failed 1 times, most recent failure: Lost task 0.0 in stage 0.0 "
    "(TID 0) (host executor driver): org.apache.kafka.common.errors."
)


@pytest.mark.parametrize(
    ("java", "said"),
    [
        (
            "TopicAuthorizationException: Not authorized to access topics: [orders]\n\tat x",
            "Not authorized to access topics: [orders]; grant READ on topic 'orders'",
        ),
        (
            "GroupAuthorizationException: Not authorized to access group: spark-1",
            "Not authorized to access group: spark-1; grant READ on group 'spark-1'",
        ),
        ("TopicAuthorizationException: Topic authorization failed.", "Topic authorization failed"),
        (
            "SaslAuthenticationException: Authentication failed, invalid credentials",
            "Authentication failed, invalid credentials",
        ),
    ],
)
def test_a_refusal(java, said):
    """One sentence, without Spark's words around it."""
    error = refusal_of(RuntimeError(TASK + java))
    assert str(error) == f"TWOPHASE_ACCESS_DENIED: Kafka refuses Spark's source: {said}"


@pytest.mark.parametrize(
    "error",
    [RuntimeError(TASK + "TimeoutException: gone"), Fenced("TopicAuthorizationException: x")],
)
def test_other_errors(error):
    """They may go away by themselves, or say more than this would."""
    assert refusal_of(error) is None
