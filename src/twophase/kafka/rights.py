"""Which right is missing where a broker refuses: operation, kind of resource and its name.

A broker says only which kind of resource a request was refused for. What the request needs of it is
in this table, and `docs/security.md` lists the same for whole sinks and commands.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

TOPIC: Final = "topic"
GROUP: Final = "group"
CLUSTER: Final = "cluster"
TRANSACTIONAL_ID: Final = "transactional id"

# Error code -> the kind of resource that it is about.
DENIED: Final[Mapping[int, str]] = MappingProxyType(
    {29: TOPIC, 30: GROUP, 31: CLUSTER, 53: TRANSACTIONAL_ID}
)

_NEEDED: Final[Mapping[str, Mapping[str, str]]] = {
    "FindCoordinator": {GROUP: "DESCRIBE", TRANSACTIONAL_ID: "DESCRIBE"},
    "Metadata": {TOPIC: "DESCRIBE"},
    "ListOffsets": {TOPIC: "DESCRIBE"},
    "InitProducerId": {TRANSACTIONAL_ID: "WRITE", CLUSTER: "IDEMPOTENT_WRITE"},
    "AddPartitionsToTxn": {TOPIC: "WRITE", TRANSACTIONAL_ID: "WRITE"},
    "AddOffsetsToTxn": {GROUP: "READ", TRANSACTIONAL_ID: "WRITE"},
    "TxnOffsetCommit": {TOPIC: "READ", GROUP: "READ", TRANSACTIONAL_ID: "WRITE"},
    "Produce": {TOPIC: "WRITE", TRANSACTIONAL_ID: "WRITE", CLUSTER: "IDEMPOTENT_WRITE"},
    "EndTxn": {TRANSACTIONAL_ID: "WRITE"},
    "DescribeTransactions": {TRANSACTIONAL_ID: "DESCRIBE"},
    "OffsetFetch": {TOPIC: "DESCRIBE", GROUP: "DESCRIBE"},
    "DescribeGroups": {GROUP: "DESCRIBE"},
    "DeleteGroups": {GROUP: "DELETE"},
}

# Who is refused a look is told the right that he will need next, which includes it.
_SINKS_NEED: Final[Mapping[str, str]] = {
    TOPIC: "WRITE, and READ where its marker lies",
    GROUP: "READ, to reset one DELETE",
    TRANSACTIONAL_ID: "WRITE",
}


def missing(request: str, code: int, names: Iterable[str]) -> str:
    """Return which right to grant, for an answer that means that one is missing."""
    kind = DENIED[code]
    operation = _NEEDED.get(request, {}).get(kind, "the right")
    quoted = ", ".join(repr(name) for name in sorted(set(names)))
    said = f"grant {operation} on {kind} {quoted}".rstrip()
    if operation == "IDEMPOTENT_WRITE":
        said += " (or WRITE on the topic, which includes it)"
    if operation == "DESCRIBE":
        said += f" (a sink needs {_SINKS_NEED[kind]}, which includes it)"
    return said
