"""A pipeline at work: its query started, watched, started again, and ended between two batches."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from twophase.errors import AccessDenied, StoreUnavailable, TwoPhaseError
from twophase.observe import Hook
from twophase.pipeline.endings import restart_may_help
from twophase.pipeline.events import (
    BatchDone,
    Event,
    Restarting,
    Started,
    Status,
    Stopped,
    Stopping,
    Tell,
    hidden,
)
from twophase.pipeline.following import Following
from twophase.pipeline.model import Pipeline
from twophase.pipeline.stopping import Stop
from twophase.pipeline.table import AVAILABLE_NOW, CONTINUOUSLY

_log = logging.getLogger("twophase.pipeline")

_LOOK_S: Final = 0.2
# After its last sink a batch has Spark's own commit to write, which takes moments.
_COMMIT_S: Final = 30.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0

DRAINED, ASKED = "the source is used up", "stopped as asked"
ASKED_AND_FAILED = "stopped as asked, after a failure"


class Runner:
    """One run of a pipeline; `frame` is what its views end in, `hooks` are for its sinks."""

    def __init__(
        self,
        pipeline: Pipeline,
        frame: Any,
        stop: Stop,
        tell: Tell,
        *,
        available_now: bool = False,
        hooks: Iterable[Hook] = (),
    ) -> None:
        self._pipeline, self._frame, self._stop, self._reader = pipeline, frame, stop, tell
        self._unheard: OSError | None = None
        self._trigger = _trigger(AVAILABLE_NOW if available_now else pipeline.trigger)
        self._following = Following()
        self._hooks: list[Hook] = [self._following, *hooks]
        self._status = Status()
        self._rows: dict[str, int] = {}
        self._restarts, self._in_a_row, self._furthest = 0, 0, -1
        self._offsets: Mapping[str, Any] = {}

    def run(self) -> Stopped:
        """Run until the source is used up or somebody asks for the end; raise what ends it else."""
        try:
            why = self._run()
        except Exception:
            if self._stop.asked:
                # Whoever has asked wants to know where it stopped, failure or not.
                self._tell(self._stopped(ASKED_AND_FAILED))
            raise
        return hidden(self._stopped(why), self._pipeline.references.hide)

    def _stopped(self, why: str) -> Stopped:
        rows = max(self._rows.values(), default=0)
        return Stopped(why, self._status.batch, rows, self._restarts, self._offsets)

    def _run(self) -> str:
        """Run to a good end, and return why it ended."""
        while True:
            error = self._one_query()
            if error is None and not (self._stop.asked or "availableNow" in self._trigger):
                error = StoreUnavailable("the query was stopped, and not by this command")
            if error is None and self._unheard is not None:
                batch = "before any batch" if self.batch is None else f"after batch {self.batch}"
                raise StoreUnavailable(
                    f"nobody reads what the run tells ({self._unheard}), so it was stopped {batch}"
                )
            if error is None:
                return ASKED if self._stop.asked else DRAINED
            if self._stop.asked or not restart_may_help(error):
                raise error
            if self._in_a_row >= self._pipeline.restarts:
                raise error
            self._pause(error)
            if self._stop.asked:
                raise error

    @property
    def batch(self) -> int | None:
        """The last batch that is finished."""
        return self._status.batch

    def _one_query(self) -> BaseException | None:
        """Run the query once; return what ended it, None where it is done or was stopped."""
        from twophase.spark.gate import Gate, as_failure  # noqa: PLC0415 - see sinks.py
        from twophase.spark.pipeline_query import failure_of  # noqa: PLC0415

        # New ones for each start: another process may have run the pipeline in between.
        sinks: list[Any] = []
        query = None
        try:
            try:
                gate = Gate(self._sinks(sinks))
                query = self._start(gate)
            except Exception as error:  # noqa: BLE001 - the user's own code among others
                return error
            except SystemExit as error:
                return as_failure(error)
            ids = tuple(sink.sink_id for sink in self._pipeline.sinks)
            self._tell(Started(self._pipeline.name, self._pipeline.checkpoint, ids, self._restarts))
            self._watch(query, gate)
            self._look(query, gate)
            return self._explained(gate.failure or failure_of(query))
        finally:
            if query is not None:
                self._make_sure_of_end(query, gate)
            for part, sink in zip(self._pipeline.sinks, sinks, strict=False):
                self._guarded(f"sink {part.sink_id}", getattr(sink, "close", lambda: None))

    def _start(self, gate: Any) -> Any:
        from twophase.spark.pipeline_query import start_query  # noqa: PLC0415

        pipeline = self._pipeline
        return start_query(
            self._frame,
            gate,
            name=pipeline.name,
            checkpoint=pipeline.checkpoint,
            mode=pipeline.output_mode,
            trigger=self._trigger,
        )

    def _explained(self, error: BaseException | None) -> BaseException | None:
        """Return a refusal of Spark's source as what to grant, any other error as it is."""
        from twophase.spark.pipeline_query import refusal_of  # noqa: PLC0415

        refused = None if error is None else refusal_of(error)
        if refused is None:
            return error
        try:
            # It names the topic, which Kafka's Java client does not always.
            self._pipeline.source.reach()
        except AccessDenied as named:
            return named
        except TwoPhaseError:
            return refused
        return refused

    def _sinks(self, made: list[Any]) -> Callable[[Any, int], None]:
        """Make new sinks, which are added to `made` one by one, and return them as one."""
        from twophase.spark.fan_out import fan_out  # noqa: PLC0415
        from twophase.spark.pipeline_frames import with_own_sql  # noqa: PLC0415

        for part in self._pipeline.sinks:
            # One by one: where one cannot be made, those before it have to be closed.
            made.append(part.make(self._hooks))  # noqa: PERF401
        view = self._pipeline.last_view
        parts = [
            sink if part.sql is None else with_own_sql(sink, view, part.sql)
            for part, sink in zip(self._pipeline.sinks, made, strict=True)
        ]
        return parts[0] if len(parts) == 1 else fan_out(*parts)

    def _make_sure_of_end(self, query: Any, gate: Any) -> None:
        """Stop a query that is at work still: something here has failed, and not the query."""

        def stop() -> None:
            if query.isActive:
                gate.close()
                query.stop()

        self._guarded("the query", stop)

    def _guarded(self, what: str, close: Callable[[], None]) -> None:
        """Close something; what it raises is logged, and is not how the run ends."""
        from twophase.spark.pipeline_query import first_line  # noqa: PLC0415

        try:
            close()
        except (Exception, SystemExit) as error:  # noqa: BLE001
            _log.warning("%s could not be closed: %s", what, first_line(error))

    def _watch(self, query: Any, gate: Any) -> None:
        """Look at the query until it ends, or is between two batches and shall end."""
        stopping = False
        while query.isActive:
            if self._stop.asked and not stopping:
                stopping = True
                gate.close()
                self._tell(Stopping(gate.inside))
            if stopping and gate.inside is None:
                self._let_commit(query, gate)
                query.stop()
                return
            self._look(query, gate)
            # Once somebody has asked, the event is set and would not wait any more.
            time.sleep(_LOOK_S) if stopping else self._stop.wait(_LOOK_S)

    def _let_commit(self, query: Any, gate: Any) -> None:
        """Wait until Spark has noted the last batch as finished, and not for long."""
        from twophase.spark.pipeline_query import look  # noqa: PLC0415

        deadline_s = time.monotonic() + _COMMIT_S
        while gate.last is not None and gate.held is None and query.isActive:
            batch = look(query).batch
            if (batch is not None and batch >= gate.last) or time.monotonic() > deadline_s:
                return
            time.sleep(_LOOK_S / 4)

    def _look(self, query: Any, gate: Any) -> None:
        """Tell what has changed since the last look."""
        from twophase.spark.pipeline_query import look  # noqa: PLC0415

        for record in self._following.records():
            if record.error is None:
                self._rows[record.sink_id] = self._rows.get(record.sink_id, 0) + record.rows
            self._tell(BatchDone(record))
        if gate.last is not None and gate.last > self._furthest:
            # Not by records: of several sinks one goes on while another fails, and a function has
            # none. Not by a batch that comes again because Spark could not note it.
            self._furthest, self._in_a_row = gate.last, 0
        seen = look(query)
        age_s, limit_s = self._following.transaction()
        if seen.batch is not None:
            self._offsets = seen.offsets
        self._status = Status(
            batch=self._status.batch if gate.last is None else gate.last,
            phase=self._following.phase() or seen.message,
            rows=max(self._rows.values(), default=0),
            rows_per_s=seen.rows_per_s,
            lag=seen.lag,
            transaction_age_s=age_s,
            transaction_limit_s=limit_s,
            restarts=self._restarts,
        )
        self._tell(self._status)

    def _tell(self, event: Event) -> None:
        """Tell an event; where nobody hears it the run ends, and not in the middle of a batch."""
        if self._unheard is not None:
            return
        try:
            # Here and nowhere else, so that no event is forgotten.
            self._reader(hidden(event, self._pipeline.references.hide))
        except OSError as error:
            self._unheard = error
            self._stop.ask()

    def _pause(self, error: BaseException) -> None:
        from twophase.spark.pipeline_query import first_line  # noqa: PLC0415

        self._in_a_row += 1
        self._restarts += 1
        pause_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** (self._in_a_row - 1))
        code = error.code if isinstance(error, TwoPhaseError) else None
        self._tell(
            Restarting(first_line(error), self._in_a_row, self._pipeline.restarts, pause_s, code)
        )
        self._stop.wait(pause_s)


def _trigger(trigger: str) -> dict[str, Any]:
    if trigger == AVAILABLE_NOW:
        return {"availableNow": True}
    return {} if trigger == CONTINUOUSLY else {"processingTime": trigger}
