"""Ask a coordinator until it has decided: one retry loop, bounded in time, for every request."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from twophase.errors import ProtocolViolation, StoreUnavailable, TwoPhaseError
from twophase.kafka.answers import Retry, Table, meaning, name_of
from twophase.kafka.rights import DENIED, GROUP, TOPIC, TRANSACTIONAL_ID, missing
from twophase.kafka.wire import Wire

# A commit that was just answered is being carried out for a few of these.
_FIRST_PAUSE_S = 0.001
_LONGEST_PAUSE_S = 0.5


class Unsettled(Exception):
    """A question that is asked `once` was asked, and may have been acted on or not."""


@dataclass(frozen=True, slots=True)
class Question:
    """One request to the coordinator of `key`, and how to read its answer.

    `request` builds a fresh message for each ask, since a message takes on the version of the
    broker it was sent to. `in_doubt` names the error for a question whose earlier ask the store may
    have acted on (`asked_before`: in an earlier call): a later refusal of it proves nothing.
    `once`: a repeat would not mean the same any more, so the asker has to look before it; every
    ask without a decision is `Unsettled`. `alone`: one without an answer is, because it could be
    acted on long after a repeat of it. `limit_ms` is how long to go on asking, where that is not
    `kafka.max.block.ms`. `topics` and `group` are those that it is about, for a missing right to be
    said by name.
    """

    kind: int
    key: str
    request: Callable[[], Any]
    codes: Callable[[Any], Iterable[int]]
    table: Table
    ids: dict[str, object] = field(default_factory=dict)
    advice: str = ""
    in_doubt: type[TwoPhaseError] | None = None
    asked_before: bool = False
    once: bool = False
    alone: bool = False
    limit_ms: int | None = None
    topics: tuple[str, ...] = ()
    group: str | None = None

    @property
    def what(self) -> str:
        """The request's name, as Kafka has it."""
        return type(self.request()).__name__.removesuffix("Request")

    def names(self, code: int) -> tuple[str, ...]:
        """Return the resources that a refusal for a missing right can be about."""
        group = self.group or str(self.ids.get("group") or self.key)
        found = {TOPIC: self.topics, GROUP: (group,)}
        found[TRANSACTIONAL_ID] = (str(self.ids.get("transactional_id") or self.key),)
        return found.get(DENIED[code], ())


class Asking:
    """What is known of one question so far; pure, fed by the loop in `settle`."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._doubt = question.asked_before
        self._last = "no answer"

    def unanswered(self, error: TwoPhaseError, *, asked: bool) -> None:
        """Take note of an ask without an answer; `asked` unless it certainly was not sent."""
        self._last = error.message
        self._doubt = self._doubt or asked
        if asked and (self._question.once or self._question.alone):
            raise Unsettled(self._last)

    def answered(self, codes: Iterable[int]) -> Retry | None:
        """Return None when all is done, how to ask again, or raise what a code means."""
        failed = {code: meaning(self._question.table, code) for code in codes if code}
        retry = None
        for code, verdict in failed.items():
            if not isinstance(verdict, Retry):
                raise self.refusal(verdict, self._said(code))
            retry = verdict if retry is not Retry.AGAIN_ELSEWHERE else retry
        if failed:
            # Whatever asks to be asked again may have been acted on: a coordinator answers so when
            # it lost its role while its decision was being written, and while an earlier ask of
            # ours is being carried out.
            self._doubt = True
            self._last = ", ".join(name_of(code) for code in failed)
            if self._question.once:
                raise Unsettled(self._last)
        return retry

    def _said(self, code: int) -> str:
        said = f"the broker answers {name_of(code)}"
        if code not in DENIED:
            return said
        return f"{said}; {missing(self._question.what, code, self._question.names(code))}"

    def refusal(self, verdict: type[TwoPhaseError], said: str) -> TwoPhaseError:
        """Return the error to raise: where an earlier ask is in doubt, a refusal proves nothing."""
        question = self._question
        kind = question.in_doubt if self._doubt and question.in_doubt else verdict
        what = question.what
        advice = f"; {question.advice}" if question.advice else ""
        return kind(f"{what} for {question.key!r}: {said}{advice}", **question.ids)

    def out_of_time(self, limit_ms: int) -> TwoPhaseError:
        """Return the error for a question that stayed open."""
        setting = " (kafka.max.block.ms)" if self._question.limit_ms is None else ""
        said = f"nothing was decided within {limit_ms} ms{setting}"
        return self.refusal(StoreUnavailable, f"{said}, last: {self._last}")


def settle(wire: Wire, question: Question) -> Any:
    """Return the answer once every code in it is zero; raise what the first other one means."""
    asking = Asking(question)
    limit_ms = question.limit_ms or wire.options.max_block_ms
    clock = wire.clock
    deadline = clock.now_s() + limit_ms / 1000
    pause_s = _FIRST_PAUSE_S
    while True:
        if wire.broken:
            raise asking.refusal(StoreUnavailable, "the connection to the brokers is closed")
        asked = False
        try:
            node = wire.coordinator(question.kind, question.key, limit_ms)
            asked = True
            answer = wire.ask(question.request(), node)
        except StoreUnavailable as error:
            asking.unanswered(error, asked=asked)
            retry: Retry | None = Retry.AGAIN_ELSEWHERE
        except TwoPhaseError as error:
            # The way to the broker is closed (a password, a version); what was asked before may
            # have been done all the same.
            raise asking.refusal(type(error), error.message) from error
        else:
            retry = asking.answered(question.codes(answer))
            if retry is None:
                return answer
        if retry is Retry.AGAIN_ELSEWHERE:
            wire.forget_coordinator(question.kind, question.key)
        if clock.now_s() + pause_s >= deadline:
            raise asking.out_of_time(limit_ms)
        clock.sleep(pause_s)
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


def codes_of_all(expected: Iterable[object], found: Iterable[tuple[object, int]]) -> list[int]:
    """Return the codes of an answer that speaks of everything that was asked, and nothing else."""
    codes = dict(found)
    if set(codes) != set(expected):
        raise ProtocolViolation(
            f"the broker was asked about {sorted(map(str, expected))} and answers about "
            f"{sorted(map(str, codes))}"
        )
    return list(codes.values())
