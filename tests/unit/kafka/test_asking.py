"""What is believed about a question that was asked more than once."""

import pytest
from kafka.protocol.producer.transaction import EndTxnRequest, InitProducerIdRequest

from twophase.errors import (
    AccessDenied,
    CommitOutcomeUnknown,
    EpochStale,
    Fenced,
    ProtocolViolation,
    StoreUnavailable,
)
from twophase.kafka import answers
from twophase.kafka.answers import Retry
from twophase.kafka.coordinator import Asking, Question, Unsettled, codes_of_all
from twophase.kafka.wire import TRANSACTION

NOT_COORDINATOR, LOADING, CONCURRENT, FENCED = 16, 14, 51, 90
LOST = StoreUnavailable("the answer was lost")


def commit(**more):
    """A commit, as `Transactions` asks it."""
    return Asking(
        Question(
            kind=TRANSACTION,
            key="orders",
            request=EndTxnRequest,
            codes=lambda answer: (answer.error_code,),
            table=answers.END_TXN,
            ids={"transactional_id": "orders"},
            in_doubt=CommitOutcomeUnknown,
            **more,
        )
    )


def take():
    """The taking of an id that is believed to be new."""
    return Asking(
        Question(
            kind=TRANSACTION,
            key="orders",
            request=InitProducerIdRequest,
            codes=lambda answer: (answer.error_code,),
            table=answers.INIT_PRODUCER_ID,
            once=True,
        )
    )


def test_the_first_refusal_is_believed():
    """Nothing was asked before it, so it is the fate of the transaction."""
    with pytest.raises(EpochStale, match=r"EndTxn for 'orders'.*PRODUCER_FENCED \(90\)"):
        commit().answered([FENCED])


@pytest.mark.parametrize("code", [NOT_COORDINATOR, LOADING, CONCURRENT])
def test_a_refusal_after_any_other_answer_is_not_believed(code):
    """Each of these can come after the decision was written; a rival may have come since."""
    asking = commit()
    assert isinstance(asking.answered([code]), Retry)
    with pytest.raises(CommitOutcomeUnknown):
        asking.answered([FENCED])


def test_a_refusal_after_a_lost_answer_is_not_believed():
    """The first ask may have committed."""
    asking = commit()
    asking.unanswered(LOST, asked=True)
    with pytest.raises(CommitOutcomeUnknown):
        asking.answered([FENCED])


def test_a_refusal_after_an_ask_of_an_earlier_call_is_not_believed():
    """Doubt outlives the call that began it."""
    with pytest.raises(CommitOutcomeUnknown):
        commit(asked_before=True).answered([FENCED])


def test_what_was_never_sent_leaves_no_doubt():
    """The coordinator could not be found: nothing was asked."""
    asking = commit()
    asking.unanswered(LOST, asked=False)
    with pytest.raises(EpochStale):
        asking.answered([FENCED])
    assert isinstance(asking.out_of_time(100), StoreUnavailable)


def test_a_password_that_expires_on_the_way_back_proves_nothing():
    """Refused at the door after an unanswered commit: the commit may stand."""
    asking = commit()
    asking.unanswered(LOST, asked=True)
    assert isinstance(asking.refusal(AccessDenied, "wrong password"), CommitOutcomeUnknown)
    assert isinstance(commit().refusal(AccessDenied, "wrong password"), AccessDenied)


def test_success_is_always_believed():
    """Zero after any doubt is done."""
    asking = commit(asked_before=True)
    asking.unanswered(LOST, asked=True)
    assert asking.answered([CONCURRENT]) is Retry.AGAIN
    assert asking.answered([0]) is None


def test_time_runs_out():
    """In doubt it is unknown; the last answer and the setting are named."""
    asking = commit()
    assert asking.answered([CONCURRENT]) is Retry.AGAIN
    error = asking.out_of_time(100)
    assert isinstance(error, CommitOutcomeUnknown)
    assert "100 ms (kafka.max.block.ms), last: CONCURRENT_TRANSACTIONS (51)" in str(error)


def test_a_limit_of_its_own_is_no_setting():
    """Nobody is sent to a setting that would change nothing."""
    assert "within 100 ms, last:" in str(commit(limit_ms=100).out_of_time(100))


def test_a_question_without_doubt_is_refused_as_it_is():
    """InitProducerId makes nothing visible: its fence is a fence, however often it was asked."""
    asking = Asking(
        Question(
            kind=TRANSACTION,
            key="orders",
            request=InitProducerIdRequest,
            codes=lambda answer: (answer.error_code,),
            table=answers.INIT_PRODUCER_ID,
        )
    )
    asking.unanswered(LOST, asked=True)
    with pytest.raises(Fenced):
        asking.answered([FENCED])


def test_elsewhere_wins_over_again():
    """One partition of many that wants another coordinator decides where to ask."""
    assert commit().answered([CONCURRENT, NOT_COORDINATOR, 0]) is Retry.AGAIN_ELSEWHERE
    assert commit().answered([NOT_COORDINATOR, CONCURRENT]) is Retry.AGAIN_ELSEWHERE


def test_an_answer_must_speak_of_what_was_asked():
    """A partition that is left out, or one too many, is no success."""
    assert codes_of_all(["a", "b"], [("b", 3), ("a", 0)]) == [3, 0]
    for found in ([("a", 0)], [("a", 0), ("b", 0), ("c", 0)], []):
        with pytest.raises(ProtocolViolation, match="was asked about"):
            codes_of_all(["a", "b"], found)


@pytest.mark.parametrize("code", [NOT_COORDINATOR, LOADING, CONCURRENT])
def test_what_is_asked_once_is_not_asked_again(code):
    """Neither after an answer that asks for it nor without one; nor is it taken for refused."""
    with pytest.raises(Unsettled):
        take().answered([code])
    with pytest.raises(Unsettled):
        take().unanswered(LOST, asked=True)


def test_what_is_asked_once_is_asked_again_where_it_was_not_sent():
    """The coordinator could not be found: nothing was asked, so the question still stands."""
    asking = take()
    asking.unanswered(LOST, asked=False)
    assert asking.answered([0]) is None


def alone():
    """The taking of an id under which something will be prepared."""
    return Asking(
        Question(
            kind=TRANSACTION,
            key="orders",
            request=InitProducerIdRequest,
            codes=lambda answer: (answer.error_code,),
            table=answers.INIT_PRODUCER_ID,
            alone=True,
        )
    )


@pytest.mark.parametrize("code", [NOT_COORDINATOR, LOADING, CONCURRENT])
def test_what_is_asked_alone_is_asked_again_once_it_was_answered(code):
    """What was answered cannot be acted on any later."""
    assert isinstance(alone().answered([code]), Retry)


def test_what_is_asked_alone_is_not_asked_again_without_an_answer():
    """It may still arrive, beside a repeat and after it; unless it was never sent."""
    alone().unanswered(LOST, asked=False)
    with pytest.raises(Unsettled, match="the answer was lost"):
        alone().unanswered(LOST, asked=True)
