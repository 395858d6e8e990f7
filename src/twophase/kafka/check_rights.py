"""Which rights this user has, told by the brokers without trying anything that changes a thing.

Metadata and DescribeGroups say which operations are allowed on a topic and a group. For a
transactional id no answer says so; there an EndTxn is sent that cannot end anything, under a
producer id which no broker gives out: rights are checked before it is refused.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from kafka.protocol.admin.groups import DescribeGroupsRequest
from kafka.protocol.producer.transaction import EndTxnRequest

from twophase.commit.naming import SinkName
from twophase.errors import AccessDenied, TwoPhaseError
from twophase.kafka import answers
from twophase.kafka.admin import describe_transaction
from twophase.kafka.check_topics import ask_topics
from twophase.kafka.coordinator import Question, settle
from twophase.kafka.findings import Finding, error, ok, unknown
from twophase.kafka.wire import GROUP, TRANSACTION, Wire

_READ: Final = 3
_WRITE: Final = 4
_DESCRIBE: Final = 8
_DESCRIBE_CONFIGS: Final = 10
_NAMES: Final = {
    _READ: "READ",
    _WRITE: "WRITE",
    _DESCRIBE: "DESCRIBE",
    _DESCRIBE_CONFIGS: "DESCRIBE_CONFIGS",
}

_NOBODY: Final = -2
_INVALID_PRODUCER_ID_MAPPING: Final = 49
_TOPIC_DENIED: Final = 29
_ID_DENIED: Final = 53


def right_findings(wire: Wire, name: SinkName, topic: str, row: Any) -> Iterator[Finding]:
    """Yield whether the sink may write rows and marker, and take its transactional id."""
    # READ, because a marker is a committed offset of the topic.
    needed = (_DESCRIBE, _READ, _WRITE)
    if row.error_code == _TOPIC_DENIED:
        yield _of(f"rights on topic {topic}", set(), needed)
    elif not row.error_code:
        yield _of(f"rights on topic {topic}", row.authorized_operations, needed)
    yield _group(wire, name.marker_group)
    yield _transactional_id(wire, name.transactional_id)


def letter_rights(topic: str, row: Any) -> Iterator[Finding]:
    """Yield whether the sink may write dead letters, and see how large they may be."""
    if not row.error_code:
        needed = (_DESCRIBE, _WRITE, _DESCRIBE_CONFIGS)
        yield _of(f"rights on dead-letter topic {topic}", row.authorized_operations, needed)


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
    return bool(row.error_code) or allowed is None or _READ in allowed


def _of(point: str, allowed: set[int] | None, needed: tuple[int, ...]) -> Finding:
    if allowed is None:
        return unknown(point, "the brokers do not tell")
    missing = [_NAMES[each] for each in needed if each not in allowed]
    if missing:
        said = " and ".join(missing)
        return error(point, f"{said} missing", "the sink is refused", f"grant {said}")
    return ok(point, ", ".join(_NAMES[each] for each in needed))


def _group(wire: Wire, group: str) -> Finding:
    point, needed = f"rights on group {group}", (_DESCRIBE, _READ)
    question = Question(
        kind=GROUP,
        key=group,
        request=lambda: DescribeGroupsRequest(
            groups=[group],
            include_authorized_operations=True,
            min_version=3,
            max_version=5,  # From v6 on a group that is not there tells no rights.
        ),
        codes=lambda answer: (row.error_code for row in answer.groups),
        table=answers.DESCRIBE_TRANSACTIONS,
        ids={"group": group},
    )
    try:
        (row,) = settle(wire, question).groups
    except AccessDenied:
        # READ includes DESCRIBE, so neither is there.
        return _of(point, set(), needed)
    return _of(point, row.authorized_operations, needed)


def _transactional_id(wire: Wire, transactional_id: str) -> Finding:
    point = f"rights on transactional id {transactional_id}"
    missing = []
    try:
        describe_transaction(wire, transactional_id)
    except AccessDenied:
        missing.append("DESCRIBE")
    try:
        code = _refused_end(wire, transactional_id)
    except AccessDenied:
        code = _ID_DENIED
    except TwoPhaseError as failure:
        return unknown(point, failure.message)
    if code == _ID_DENIED:
        missing.append("WRITE")
    elif code != _INVALID_PRODUCER_ID_MAPPING:
        return unknown(point, f"WRITE: the coordinator answers {answers.name_of(code)}")
    if missing:
        said = " and ".join(missing)
        return error(point, f"{said} missing", "the sink is refused", f"grant {said}")
    return ok(point, "DESCRIBE, WRITE")


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
