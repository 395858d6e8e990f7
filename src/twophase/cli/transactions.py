"""`twophase transactions`: what is open on a cluster, whom it holds back, and how to end it."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from twophase.cli.asking import asking, confirm
from twophase.cli.connection import connected, connection_options
from twophase.cli.output import output_option, show
from twophase.cli.progress import bar
from twophase.cli.transaction_text import done_text, open_text
from twophase.commit.naming import SinkName

if TYPE_CHECKING:
    from twophase.kafka.aborts import Aborted
    from twophase.kafka.open_transactions import OpenTransaction
    from twophase.kafka.wire import Wire

# Brokers leave out what a user may not DESCRIBE, without a word.
_SEEN = ", among those that this user may DESCRIBE"
# As long as a sink waits for one answer: a live one may send nothing for that long.
_WATCH_MIN_S = 30
_WATCH_MAX_S = 3_600

_GROUP_EXAMPLE = """\b
Example: readers of a topic stand still; what holds them back, and away with it
  twophase transactions list --bootstrap-server broker-1:9092
  twophase transactions abort twophase.orders --bootstrap-server broker-1:9092
"""


@click.group(epilog=_GROUP_EXAMPLE)
def transactions() -> None:
    """See open transactions and whom they hold back; abort what a dead job left.

    While a transaction is open, readers in read_committed get no further than its first record. A
    job that was killed leaves its transaction open until the broker's timeout. docs/operations.md
    tells what to do when a reader is stuck.
    """


_LIST_EXAMPLE = """\b
Example: all of the cluster, and those of one sink with its runs and tasks
  twophase transactions list --bootstrap-server broker-1:9092
  twophase transactions list --bootstrap-server broker-1:9092 --sink-id orders --output json
"""


@transactions.command("list", epilog=_LIST_EXAMPLE)
@click.option("--prefix", metavar="P", help="Only transactional ids that begin so.")
@click.option("--sink-id", metavar="S", help="Only those of a sink, its runs and its tasks.")
@output_option
@connection_options
def list_open(prefix: str | None, sink_id: str | None, output: str, **connection: Any) -> None:
    """List open transactions, the oldest first, and the readers that they hold back.

    For each: transactional id, identity, state, age, timeout, and for each partition where readers
    in read_committed stand still and how many records lie behind that point. Changes nothing. Needs
    DESCRIBE on the transactional ids, of which others are left out without a word, and on the
    topics; READ on the topics to tell which of several transactions it is that readers wait for.
    """
    belongs = _belonging(prefix, sink_id)
    with connected(**connection) as wire, bar("looking at open transactions") as start:
        from twophase.kafka.open_transactions import open_transactions  # noqa: PLC0415

        _may_look(wire, sink_id)
        found = open_transactions(wire, belongs, start)
    said = [line for each in found for line in open_text(each)]
    show({"transactions": found}, output, *(said or [Text(f"no transaction is open{_SEEN}")]))


_ABORT_EXAMPLE = """\b
Example: a driver was killed with -9, and its readers shall not wait for the timeout
  twophase transactions abort twophase.orders --bootstrap-server broker-1:9092
\b
Example: whatever is left of a sink and of its runs, without a question
  twophase transactions abort --lingering --sink-id orders --yes \\
      --bootstrap-server broker-1:9092
"""


@transactions.command("abort", epilog=_ABORT_EXAMPLE)
@click.argument("transactional_id", required=False)
@click.option("--lingering", is_flag=True, help="All that linger of the sink of --sink-id.")
@click.option("--sink-id", metavar="S", help="With --lingering: the sink, its runs, its tasks.")
@click.option(
    "--watch",
    "watch_s",
    type=click.IntRange(1, _WATCH_MAX_S),
    metavar="SECONDS",
    default=_WATCH_MIN_S,
    show_default=True,
    help="How long nothing may move in a transaction before it counts as left behind; 30 at least, "
    "as a job that lives may wait so long.",
)
@click.option("--force", is_flag=True, help="Do not watch: abort it whoever it belongs to.")
@asking
@output_option
@connection_options
@click.pass_context
def abort_open(
    context: click.Context,
    /,
    transactional_id: str | None,
    sink_id: str | None,
    watch_s: int,
    output: str,
    *,
    lingering: bool,
    force: bool,
    yes: bool,
    **connection: Any,
) -> None:
    """Abort a transaction that a dead job has left open; nothing of it becomes visible.

    No broker tells whether a job lives. So the transaction is watched: if anything moves in it, or
    that cannot be seen, it is left alone. What has not moved may still belong to a job that is
    paused or cut off; a batch-scope sink that comes back then sends its batch again, and no row is
    lost or doubled. Transactions of other programs, and of task scope, may be prepared and waiting
    for a commit that is decided: they are aborted by --force only, which can lose their rows.

    The transaction that was seen is ended as the broker's timeout would end it, which fences no
    sink that is alive after all. The exit code is 0 when nothing is left open, else 1.
    """
    belongs = _chosen(transactional_id, sink_id, lingering=lingering)
    _long_enough(watch_s, force=force)
    with connected(**connection) as wire:
        from twophase.kafka import aborts  # noqa: PLC0415

        with bar("looking at open transactions") as start:
            _may_look(wire, sink_id)
            seen = _seen(wire, transactional_id, belongs, start)
        left: list[Aborted] = []
        if seen and not force:
            seen, left = _watched(wire, seen, watch_s)
        done: list[Aborted] = []
        if seen:
            confirm(_plan(seen, watch_s, force=force), yes=yes)
            done = [aborts.abort(wire, each, force=force) for each in seen]
    results = [*left, *done]
    show(
        {"transactions": results},
        output,
        *([done_text(each) for each in results] or [Text(_nothing(transactional_id, sink_id))]),
    )
    if any(each.outcome in {aborts.Outcome.LEFT, aborts.Outcome.UNKNOWN} for each in results):
        context.exit(1)


def _belonging(prefix: str | None, sink_id: str | None) -> Callable[[str], bool]:
    if sink_id is not None:
        if prefix is not None:
            raise click.UsageError("give either --prefix or --sink-id")
        return SinkName(sink_id).owns
    return lambda transactional_id: transactional_id.startswith(prefix or "")


def _chosen(
    transactional_id: str | None, sink_id: str | None, *, lingering: bool
) -> Callable[[str], bool]:
    if lingering and sink_id is not None and transactional_id is None:
        return SinkName(sink_id).owns
    if lingering or sink_id is not None or not transactional_id:
        raise click.UsageError(
            "give either a transactional id, or --lingering with --sink-id S; "
            "`twophase transactions list` shows the ids"
        )
    return lambda each: each == transactional_id


def _long_enough(watch_s: int, *, force: bool) -> None:
    if watch_s < _WATCH_MIN_S and not force:
        raise click.UsageError(
            f"--watch is {watch_s}, and a job that lives may send nothing for {_WATCH_MIN_S} "
            f"seconds between two blocks; give {_WATCH_MIN_S} to {_WATCH_MAX_S}, or --force to "
            "abort it whoever it belongs to"
        )


def _may_look(wire: "Wire", sink_id: str | None) -> None:
    """Refuse for a sink whose id may not be described: brokers leave it out without a word."""
    from twophase.kafka.admin import describe_transaction  # noqa: PLC0415

    if sink_id is not None:
        describe_transaction(wire, SinkName(sink_id).transactional_id)


def _seen(
    wire: "Wire",
    transactional_id: str | None,
    belongs: Callable[[str], bool],
    start: Callable[[int], Callable[[], None]],
) -> "list[OpenTransaction]":
    from twophase.kafka.admin import TransactionState  # noqa: PLC0415
    from twophase.kafka.open_transactions import look_at, open_transactions  # noqa: PLC0415

    if transactional_id is None:
        found = open_transactions(wire, belongs, start)
    else:
        one = look_at(wire, transactional_id)
        found = () if one is None else (one,)
    # One whose end is decided is ended by its coordinator, and cannot be aborted any more.
    return [each for each in found if each.state == TransactionState.ONGOING]


def _watched(
    wire: "Wire", seen: "Sequence[OpenTransaction]", watch_s: int
) -> "tuple[list[OpenTransaction], list[Aborted]]":
    """Return the transactions in which nothing has moved, and why the others are left alone."""
    from twophase.kafka.aborts import Sight, left, sight  # noqa: PLC0415
    from twophase.kafka.open_transactions import look_at  # noqa: PLC0415

    foreign = [each for each in seen if SinkName.read(each.transactional_id) is None]
    if len(foreign) == len(seen):
        return [], [left(each, Sight.FOREIGN) for each in foreign]
    with bar("watching whether anything moves, in seconds") as start:
        advance = start(watch_s)
        for _ in range(watch_s):
            time.sleep(1)
            advance()
    looks = [(each, look_at(wire, each.transactional_id)) for each in seen]
    found = [(each, after, sight(each, after)) for each, after in looks]
    still = [after for _, after, said in found if said is Sight.STILL and after is not None]
    return still, [left(each, said) for each, _, said in found if said is not Sight.STILL]


def _plan(seen: "Sequence[OpenTransaction]", watch_s: int, *, force: bool) -> list[str]:
    lines = ["to abort:", *(f"  {line}" for each in seen for line in open_text(each))]
    if force:
        lines.append("  - whether a job is at work was not looked at (--force)")
        known = (
            "a sink in batch scope sends its batch again and loses nothing; the rows of anything "
            "else, if prepared and waiting for its commit, ARE LOST"
        )
    else:
        known = (
            f"nothing has moved for {watch_s} s; a job that is paused, waits for a broker or is "
            "cut off cannot be told from a dead one: if it comes back it sends its batch again, "
            "and no row is lost or doubled"
        )
    return [*lines, f"  - {known}"]


def _nothing(transactional_id: str | None, sink_id: str | None) -> str:
    whose = f"transactional id {transactional_id}" if transactional_id else f"sink {sink_id}"
    return f"nothing to abort: no transaction is open under {whose}{_SEEN}"
