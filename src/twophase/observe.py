"""What happened to each batch, as one frozen record, and the hooks that receive it.

A hook is any function of one `BatchRecord`. It is called once for every call of a sink, whether the
batch was written, skipped or refused, after all is decided: it can change nothing, and what it
raises is logged and goes no further. `log_batch` is always among them.

A hook that has a method `follow` is handed each `Call` as it begins as well, and may look at any
time, from any thread, how far it is.
"""

import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Protocol

from twophase.call_watch import CallWatch, Recovery
from twophase.commit.effects import Finished, Outcome
from twophase.commit.naming import SinkName
from twophase.commit.recovery import Batch
from twophase.commit.summary import Summary
from twophase.commit.turns import Ended
from twophase.errors import TwoPhaseError
from twophase.guarantee import Guarantee
from twophase.watch import Watch

_log = logging.getLogger("twophase")

FAILED, WRITTEN = "failed", "written"
OTHER = "OTHER"
UNROUTED, TASK, STAGED = "unrouted", "task", "staged"
_NOTHING = Ended(Outcome.SKIPPED, 0, 0.0, 0.0, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """One call of a sink for one batch.

    `outcome` is committed, committed-before (by this call, found out later), skipped (written by
    an earlier run), written (without a transaction) or failed; then `error` holds its text and
    `code` its code, or OTHER where the error is not one of this package. `path` is driver, routed,
    local, unrouted, task or staged, and empty where nothing was computed. Times are in seconds;
    `open_s` is how long a transaction was open, which is how long readers were held up. `rows` and
    `bytes` are what this call wrote to where it was meant to go, `rejected_rows` those that it put
    aside, as dead letters; only the guarantee `none` can have `failed_rows`. `retries` is how often
    the sink tried something again, also where the batch failed in the end.
    """

    sink_id: str
    owner: str
    batch: int
    run_id: str | None
    guarantee: str
    outcome: str
    path: str
    rows: int
    bytes: int = 0
    failed_rows: int = 0
    rejected_rows: int = 0
    attempts: int = 1
    retries: int = 0
    recovery: str = Recovery.NONE
    encode_s: float = 0.0
    send_s: float = 0.0
    commit_s: float = 0.0
    open_s: float = 0.0
    total_s: float
    warnings: tuple[str, ...] = ()
    error: str | None
    code: str | None = None


Hook = Callable[[BatchRecord], None]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a sink that has begun; `watch` says how far it is, and when it is over."""

    sink_id: str
    run_id: str | None
    batch: int
    watch: CallWatch


def record_of(
    name: SinkName,
    batch: Batch,
    watch: Watch,
    *,
    path: str,
    finished: Finished | None,
    error: BaseException | None,
    dead_letter_topic: str | None = None,
) -> BatchRecord:
    """Return the record of one call that has ended, well or not."""
    wrote = finished is not None and finished.outcome is not Outcome.SKIPPED
    written = watch.summary.without(dead_letter_topic) if wrote else Summary()
    return BatchRecord(
        sink_id=name.sink_id,
        owner=batch.owner,
        batch=batch.number,
        run_id=name.run_id,
        guarantee=Guarantee.EXACTLY_ONCE,
        outcome=FAILED if finished is None else finished.outcome.value,
        path=path,
        rows=written.rows,
        bytes=written.bytes,
        rejected_rows=watch.summary.rows - written.rows if wrote else 0,
        attempts=finished.attempts if finished is not None else 0,
        retries=watch.retries,
        recovery=watch.recovery(finished),
        encode_s=watch.encode_s,
        send_s=watch.send_s,
        commit_s=watch.commit_s,
        open_s=watch.open_s,
        total_s=watch.total_s,
        warnings=finished.warnings if finished is not None else (),
        error=_text_of(error),
        code=_code_of(error),
    )


def scope_record(
    name: SinkName,
    batch: Batch,
    *,
    path: str,
    ended: Ended | None,
    watch: CallWatch,
    error: BaseException | None,
) -> BatchRecord:
    """Return the record of a call that knows two times: of running the tasks, and of committing."""
    found = ended or _NOTHING
    skipped = ended is not None and ended.outcome is Outcome.SKIPPED
    again = watch.recovered is Recovery.COMMITTED_AGAIN
    return BatchRecord(
        sink_id=name.sink_id,
        owner=batch.owner,
        batch=batch.number,
        run_id=name.run_id,
        guarantee=Guarantee.EXACTLY_ONCE,
        outcome=FAILED if ended is None else ended.outcome.value,
        path=path,
        rows=found.rows,
        bytes=found.bytes,
        retries=watch.retries,
        recovery=Recovery.SKIPPED if skipped and not again else watch.recovered,
        rejected_rows=found.rejected_rows,
        send_s=found.run_s,
        commit_s=found.commit_s,
        open_s=watch.open_s,
        total_s=watch.total_s,
        warnings=found.warnings,
        error=_text_of(error),
        code=_code_of(error),
    )


class Counted(Protocol):
    """What a batch without a transaction has written, and what it has not."""

    @property
    def rows(self) -> int:
        """Rows that were acknowledged."""

    @property
    def bytes(self) -> int:
        """Bytes that were acknowledged."""

    @property
    def failed_rows(self) -> int:
        """Rows that were given up."""

    @property
    def rejected_rows(self) -> int:
        """Rows that were put aside."""


def plain_record(
    name: SinkName,
    number: int,
    *,
    guarantee: Guarantee,
    written: Counted | None,
    total_s: float,
    error: BaseException | None,
) -> BatchRecord:
    """Return the record of a call without a transaction: encoding and sending are one."""
    return BatchRecord(
        sink_id=name.sink_id,
        owner="",
        batch=number,
        run_id=name.run_id,
        guarantee=guarantee,
        outcome=FAILED if written is None else WRITTEN,
        path=UNROUTED,
        rows=written.rows if written is not None else 0,
        bytes=written.bytes if written is not None else 0,
        failed_rows=written.failed_rows if written is not None else 0,
        rejected_rows=written.rejected_rows if written is not None else 0,
        send_s=total_s,
        total_s=total_s,
        error=_text_of(error),
        code=_code_of(error),
    )


def _text_of(error: BaseException | None) -> str | None:
    return None if error is None else str(error) or type(error).__name__


def _code_of(error: BaseException | None) -> str | None:
    if error is None:
        return None
    return error.code if isinstance(error, TwoPhaseError) else OTHER


def announce(hooks: Iterable[Hook], name: SinkName, number: int, watch: CallWatch) -> None:
    """Tell the hooks that want to know of a call that begins."""
    for hook in hooks:
        follow = getattr(hook, "follow", None)
        if follow is None:
            continue
        try:
            follow(Call(name.sink_id, name.run_id, number, watch))
        except Exception:  # noqa: BLE001 - a broken hook must not keep a batch from being written
            _log.exception("a hook failed before batch %d of sink %s", number, name.sink_id)


def notify(hooks: Iterable[Hook], record: BatchRecord) -> None:
    """Hand the record to the log and to every hook."""
    for hook in (log_batch, *hooks):
        try:
            hook(record)
        except Exception:  # noqa: BLE001
            # The batch is decided: a broken hook must neither undo that nor hide it.
            _log.exception("a hook failed for batch %d of sink %s", record.batch, record.sink_id)


def log_batch(record: BatchRecord) -> None:
    """Log one line: JSON behind the word "batch", and the fields as `extra` for structured logs."""
    fields = {key: _short(value) for key, value in asdict(record).items()}
    level = logging.ERROR if record.outcome == FAILED else logging.INFO
    if level == logging.INFO and (record.warnings or record.failed_rows or record.rejected_rows):
        level = logging.WARNING
    _log.log(level, "batch %s", json.dumps(fields), extra={"twophase": fields})


def _short(value: object) -> object:
    return round(value, 6) if isinstance(value, float) else value
