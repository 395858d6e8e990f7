"""Which rights this user has, told by the brokers without trying anything that changes a thing.

Metadata and DescribeGroups say which operations are allowed on a topic and a group. For a
transactional id no answer says so; there an EndTxn is sent that cannot end anything, under a
producer id which no broker gives out: rights are checked before it is refused.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from kafka.protocol.producer.transaction import EndTxnRequest

from twophase.errors import AccessDenied, CommitRejected, TwoPhaseError
from twophase.guarantee import Guarantee
from twophase.kafka import answers
from twophase.kafka.admin import describe_transaction
from twophase.kafka.check_setup import Setup
from twophase.kafka.check_topics import ask_topics
from twophase.kafka.coordinator import Question, settle
from twophase.kafka.findings import Finding, error, ok, unknown
from twophase.kafka.groups import describe_group
from twophase.kafka.needs import READ, WRITE, Need
from twophase.kafka.rights import GROUP, TOPIC, TRANSACTIONAL_ID
from twophase.kafka.wire import TRANSACTION, Wire

_DESCRIBE: Final = "DESCRIBE"
_READ_CODE: Final = 3
_NAMES: Final = {_READ_CODE: READ, 4: WRITE, 8: _DESCRIBE}

_NOBODY: Final = -2
_INVALID_PRODUCER_ID_MAPPING: Final = 49
_TOPIC_DENIED: Final = 29
_ID_DENIED: Final = 53

# The operations that are allowed; None where the brokers do not tell.
Allowed = set[str] | None


def right_findings(
    wire: Wire, setup: Setup, topics: Callable[[], dict[str, Any]]
) -> Iterator[Finding]:
    """Yield of each resource that the sink uses whether every right on it is there.

    `topics` returns what the brokers say of the topics, or raises why they do not.
    """
    asks: tuple[tuple[str, Callable[[str], Allowed]], ...] = (
        (TOPIC, lambda name: _on_topic(topics()[name])),
        (GROUP, lambda name: _on_group(wire, name)),
        (TRANSACTIONAL_ID, lambda name: _on_id(wire, name)),
    )
    needs = setup.needs()
    for kind, ask in asks:
        for name in setup.used(kind):
            point = f"rights on {kind} {name}"
            try:
                allowed = ask(name)
            except TwoPhaseError as failure:
                yield unknown(point, failure.message, "mend what is said, and check again")
            else:
                here = [each for each in needs if each.covers(kind, name)]
                yield _judged(point, allowed, here, setup.guarantee)
    if setup.source_group is not None and not setup.source_topics:
        yield unknown(
            "rights on the source's topics",
            "they are not given",
            "give each with --source-topic: offsets of a topic are committed with READ on it only",
        )


def check_readable(wire: Wire, topics: Iterable[str]) -> None:
    """Raise where this user may not read rows of a topic; where the brokers do not tell, he may."""
    denied = [
        name
        for name, row in ask_topics(wire, list(topics)).items()
        if row.error_code == _TOPIC_DENIED or not _may_read(row)
    ]
    if denied:
        names = ", ".join(repr(name) for name in sorted(denied))
        raise AccessDenied(f"the source may not read: grant READ on topic {names}")


def _may_read(row: Any) -> bool:
    allowed = row.authorized_operations
    return bool(row.error_code) or allowed is None or _READ_CODE in allowed


def _judged(point: str, allowed: Allowed, needs: Sequence[Need], guarantee: Guarantee) -> Finding:
    if allowed is None:
        return unknown(point, "the brokers do not tell", "ask who may look at the ACLs")
    operations = sorted({_DESCRIBE, *(need.operation for need in needs)})
    missing = [each for each in operations if each not in allowed]
    if not missing:
        return ok(point, ", ".join(operations))
    grants = [str(need) for need in needs if need.operation in missing]
    # DESCRIBE is in each of the others; alone it is missing only where it is denied.
    grants = grants or [f"{_DESCRIBE} on {point.removeprefix('rights on ')}"]
    uses = "; ".join(dict.fromkeys(need.why for need in needs if need.operation in missing))
    harm = "the sink is refused"
    if guarantee is Guarantee.NONE and _DESCRIBE in allowed:
        harm = "all of its rows are given up, and the query goes on"
    return error(
        point,
        f"{' and '.join(missing)} missing",
        harm + (f"; it is for {uses}" if uses else ""),
        "grant " + " and ".join(grants),
    )


def _on_topic(row: Any) -> Allowed:
    if row.error_code == _TOPIC_DENIED:
        return set()
    if row.error_code:
        raise CommitRejected(f"the brokers answer {answers.name_of(row.error_code)}")
    return _named(row.authorized_operations)


def _named(codes: set[int] | None) -> Allowed:
    return None if codes is None else {_NAMES[code] for code in codes if code in _NAMES}


def _on_group(wire: Wire, group: str) -> Allowed:
    try:
        row = describe_group(wire, group, rights=True)
    except AccessDenied:
        # READ includes DESCRIBE, so neither is there.
        return set()
    return _named(row.authorized_operations)


def _on_id(wire: Wire, transactional_id: str) -> Allowed:
    allowed = {_DESCRIBE, WRITE}
    try:
        describe_transaction(wire, transactional_id)
    except AccessDenied:
        allowed.discard(_DESCRIBE)
    try:
        code = _refused_end(wire, transactional_id)
    except AccessDenied:
        code = _ID_DENIED
    if code == _ID_DENIED:
        allowed.discard(WRITE)
    elif code != _INVALID_PRODUCER_ID_MAPPING:
        raise CommitRejected(f"WRITE: the coordinator answers {answers.name_of(code)}")
    return allowed


def _refused_end(wire: Wire, transactional_id: str) -> int:
    def request() -> Any:
        return EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=_NOBODY,
            producer_epoch=0,
            committed=False,
            max_version=4,
        )

    refused = {_INVALID_PRODUCER_ID_MAPPING, _ID_DENIED}
    answer = settle(
        wire,
        Question(
            kind=TRANSACTION,
            key=transactional_id,
            request=request,
            codes=lambda answer: () if answer.error_code in refused else (answer.error_code,),
            table=answers.END_TXN,
            ids={"transactional_id": transactional_id},
        ),
    )
    return int(answer.error_code)
