"""Ask a coordinator until it has decided: one retry loop, bounded in time, for every request."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from twophase.errors import StoreUnavailable, TwoPhaseError
from twophase.kafka.answers import Retry, Table, meaning, name_of
from twophase.kafka.wire import Wire

_FIRST_PAUSE_S = 0.005
_LONGEST_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class Question:
    """One request to the coordinator of `key`, and how to read its answer.

    `request` builds a fresh message for each ask, since a message takes on the version of the
    broker it was sent to. `in_doubt` names the error for a request whose earlier ask went
    unanswered: the store may have acted on it, so a later refusal proves nothing.
    """

    kind: int
    key: str
    request: Callable[[], Any]
    codes: Callable[[Any], Iterable[int]]
    table: Table
    ids: dict[str, object] = field(default_factory=dict)
    advice: str = ""
    in_doubt: type[TwoPhaseError] | None = None


def settle(wire: Wire, question: Question) -> Any:
    """Return the answer once every code in it is zero; raise what the first other one means."""
    deadline = time.monotonic() + wire.options.max_block_ms / 1000
    pause_s, doubt = _FIRST_PAUSE_S, False
    while True:
        asked = False
        try:
            node = wire.coordinator(question.kind, question.key)
            asked = True
            answer = wire.ask(question.request(), node)
        except StoreUnavailable as error:
            last = error.message
            doubt = doubt or asked
            wire.forget_coordinator(question.kind, question.key)
        else:
            failed = {
                code: meaning(question.table, code) for code in question.codes(answer) if code
            }
            if not failed:
                return answer
            for code, verdict in failed.items():
                if not isinstance(verdict, Retry):
                    raise _refusal(question, verdict, f"answers {name_of(code)}", doubt=doubt)
            last = ", ".join(name_of(code) for code in failed)
            doubt = doubt or any(verdict is not Retry.LATER for verdict in failed.values())
            if Retry.AGAIN_ELSEWHERE in failed.values():
                wire.forget_coordinator(question.kind, question.key)
        if time.monotonic() + pause_s >= deadline:
            said = f"decided nothing within {wire.options.max_block_ms} ms (kafka.max.block.ms)"
            raise _refusal(question, StoreUnavailable, f"{said}, last: {last}", doubt=doubt)
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


def _refusal(
    question: Question, verdict: type[TwoPhaseError], said: str, *, doubt: bool
) -> TwoPhaseError:
    """Return the error to raise: after an unanswered ask a refusal proves nothing."""
    kind = question.in_doubt if doubt and question.in_doubt else verdict
    what = type(question.request()).__name__.removesuffix("Request")
    advice = f"; {question.advice}" if question.advice else ""
    return kind(f"{what} for {question.key!r}: the broker {said}{advice}", **question.ids)
