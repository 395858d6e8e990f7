"""Whether anything can have been written under a transactional id: what its time limit tells.

Taking an id wipes out how its last transaction ended. A new sink that dies between taking its id
and committing its first marker would look like one whose marker was deleted, and be refused. The
transaction timeout is the one thing that the coordinator keeps for us there, so it carries a code.

An owner that has seen that no row can be in the topic takes the id with a timeout that is coded
with **the epoch that it expects**: 0 where there was no id, else one more than it saw. Everybody
else takes it with a multiple of 100 ms. A later look finds the code and the epoch:

- They agree: nobody came between that owner's look and its taking, so it was right. A rival that
  did, or a request that was on its way for long, has raised the epoch.
- From no id at all, epoch 1 is as good: the one before can only have founded the sink.
- A transaction that is open, or was aborted by its owner, by the broker's timeout or by the next
  owner: under a coded epoch an owner writes nothing but the first marker (`store.py`), and no rows.

Under version 1 a commit does not raise the epoch. There the rule about the coded epoch is what
counts: rows are written under a later one, which a rival that looked before does not expect.

The code is the epoch modulo 99, so that a sink may be started in vain for ever. For a wrong
agreement 99 epochs would have to pass between one owner's look and its taking, all of them in the
query's batch 0: a later batch is never run because its sink looks new (`commit/recovery.py`).
"""

from typing import Final

from twophase.kafka.admin import TransactionDescription, TransactionState

_GRAIN_MS: Final = 100
_CODES: Final = _GRAIN_MS - 1
_NOTHING_ENDED: Final = (TransactionState.EMPTY, TransactionState.ONGOING)
_ABORTED: Final = (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT)


def unfounded(seen: TransactionDescription | None) -> bool:
    """Whether a look shows that no row can have been committed under the id."""
    if seen is None:
        return True
    code = _code_of(seen.timeout_ms)
    if code is None:
        return False
    behind = (seen.epoch - code) % _CODES
    if seen.state in _NOTHING_ENDED:
        return behind == 0 or (seen.epoch, code) == (1, 0)
    # A timeout and a next owner raise the epoch by one when they abort, under version 2 any end.
    return seen.state in _ABORTED and behind <= 1


def expected_epoch(seen: TransactionDescription | None) -> int:
    """Return the epoch of whoever takes the id right after this look."""
    return 0 if seen is None else seen.epoch + 1


def time_limit_ms(configured_ms: int, *, founded: bool, epoch: int = 0) -> int:
    """Return the transaction timeout to take an id with: a multiple of 100 ms for a founded sink.

    For a new one it is less by a code of the epoch that the taker expects. Both are less than
    200 ms below what was configured; below 100 ms they are up to 100 ms.
    """
    round_ms = max(_GRAIN_MS, configured_ms - configured_ms % _GRAIN_MS)
    return round_ms if founded else round_ms - 1 - epoch % _CODES


def _code_of(timeout_ms: int) -> int | None:
    rest_ms = timeout_ms % _GRAIN_MS
    return None if rest_ms == 0 else _CODES - rest_ms
