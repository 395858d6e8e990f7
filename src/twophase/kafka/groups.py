"""A consumer group as a whole: all that it has committed, and its end."""

from types import MappingProxyType
from typing import Any, Final

from kafka.protocol.admin.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from kafka.protocol.consumer import OffsetFetchRequest

from twophase.errors import ConfigurationError, StoreUnavailable
from twophase.kafka import answers
from twophase.kafka.coordinator import Question, codes_of_all, settle
from twophase.kafka.identity import TopicPartition
from twophase.kafka.offsets import CommittedOffset, committed_in
from twophase.kafka.wire import GROUP, Wire

_GROUP_ID_NOT_FOUND: Final = 69
_NO_GROUP: Final = "Dead"

DELETE_GROUPS: Final[answers.Table] = MappingProxyType(
    {
        # What any coordinator answers, and access: the same as to a look.
        **answers.DESCRIBE_TRANSACTIONS,
        24: ConfigurationError,  # INVALID_GROUP_ID
        68: ConfigurationError,  # NON_EMPTY_GROUP: a consumer is a member of it
    }
)


def offsets_of_group(
    wire: Wire, group: str, *, stable: bool
) -> dict[TopicPartition, CommittedOffset]:
    """Return all that a group has committed, in any topic.

    `stable` waits while a transaction that writes here is open. Without it the answer is what was
    committed last, however long a transaction stays open.
    """

    def request() -> Any:
        return OffsetFetchRequest(
            group_id=group,
            topics=None,
            require_stable=stable,
            min_version=7,  # the first with require_stable, and the last with one group only
            max_version=7,
        )

    answer = settle(
        wire,
        Question(
            kind=GROUP,
            key=group,
            request=request,
            codes=lambda answer: (
                answer.error_code,
                *(row.error_code for topic in answer.topics for row in topic.partitions),
            ),
            table=answers.OFFSET_FETCH,
            ids={"group": group},
        ),
    )
    return committed_in(answer)


def describe_group(wire: Wire, group: str, *, rights: bool = False) -> Any:
    """Return what the coordinator says of a group; with `rights` also what this user may do."""
    answer = settle(
        wire,
        Question(
            kind=GROUP,
            key=group,
            request=lambda: DescribeGroupsRequest(
                groups=[group],
                include_authorized_operations=rights,
                min_version=3,
                # From v6 on a group that is not there is an error, and tells no rights.
                max_version=5,
            ),
            codes=lambda answer: codes_of_all(
                [group], ((row.group_id, row.error_code) for row in answer.groups)
            ),
            table=answers.DESCRIBE_TRANSACTIONS,
            ids={"group": group},
        ),
    )
    (row,) = answer.groups
    return row


def group_exists(wire: Wire, group: str) -> bool:
    """Return whether the coordinator has the group, whatever may be seen of its offsets."""
    return bool(describe_group(wire, group).group_state != _NO_GROUP)


def list_groups(wire: Wire, prefix: str) -> tuple[str, ...]:
    """Return every group that starts with `prefix`, from all coordinators.

    Raises where a known broker does not answer; groups that the user may not DESCRIBE are left out
    by the broker without a word.
    """
    found = []
    for node in wire.nodes():
        answer = wire.ask(ListGroupsRequest(), node)
        if answer.error_code:
            verdict = answers.meaning(answers.LIST_TRANSACTIONS, answer.error_code)
            kind = StoreUnavailable if isinstance(verdict, answers.Retry) else verdict
            raise kind(f"node {node} lists no groups: {answers.name_of(answer.error_code)}")
        found += [row.group_id for row in answer.groups if row.group_id.startswith(prefix)]
    return tuple(sorted(found))


def delete_group(wire: Wire, group: str) -> None:
    """Delete a group without members and all that it has committed; one that is gone is done."""
    settle(
        wire,
        Question(
            kind=GROUP,
            key=group,
            request=lambda: DeleteGroupsRequest(groups_names=[group]),
            codes=lambda answer: (
                code
                for code in codes_of_all(
                    [group], ((row.group_id, row.error_code) for row in answer.results)
                )
                if code != _GROUP_ID_NOT_FOUND
            ),
            table=DELETE_GROUPS,
            ids={"group": group},
            advice="no consumer may be a member of the group, and DELETE on it is needed",
        ),
    )
