"""Spark around a run of `twophase run`: its session and log, and how it is ended at once."""

import logging
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from twophase.cli.run_output import complain, unheard
from twophase.errors import ConfigurationError
from twophase.pipeline.endings import Ending
from twophase.pipeline.mistakes import PipelineWrong
from twophase.pipeline.stopping import Stop, stop_by_signals


class AtOnce:
    """Ends Spark's JVM and this process; what is open is ended by the next start or the broker.

    By no exception: it would come up in the middle of whatever the main thread asks the JVM, which
    logs it with its stack.
    """

    def __init__(self, session: Any, log: Path | None = None) -> None:
        self._log = log
        self._process = getattr(session.sparkContext._gateway, "proc", None)  # noqa: SLF001
        self.runner: Any = None

    def __call__(self) -> None:
        """Say where it stands, and end."""
        # Whoever reads may be gone, and that must not keep it from ending.
        with suppress(Exception):
            self._say()
        if self._process is not None:
            self._process.kill()
        # Not sys.exit, which would wait for threads that wait for the JVM.
        os._exit(int(Ending.ABORTED))

    def _say(self) -> None:
        if sys.__stderr__ is None:
            # Another file may have its number.
            return
        batch = None if self.runner is None else self.runner.batch
        last = "no batch was finished" if batch is None else f"batch {batch} was the last finished"
        log = "" if self._log is None else f"Spark's own log is {self._log}\n"
        said = f"{log}ended at once: {last}; the next start goes on there\n"
        if sys.__stderr__.isatty():
            # The line that moves has hidden the cursor.
            said = f"\r\x1b[2K\x1b[?25h{said}"
        # Not by a stream, in which this may have interrupted a write.
        os.write(2, said.encode(errors="backslashreplace"))


@dataclass(frozen=True, slots=True)
class Spark:
    """Spark at work; signals ask for the end, by `stop`, or end it `at_once`."""

    session: Any
    stop: Stop
    at_once: AtOnce


@contextmanager
def spark_session(loaded: Any, master: str, spark_log: str | None) -> Iterator[Spark]:
    """Start Spark for a pipeline, and stop it."""
    from twophase.spark.pipeline_session import start_session  # noqa: PLC0415

    with _log_file(spark_log) as (log, kept):
        # Spark's own handler of SIGINT, which it leaves behind, asks the JVM once more.
        with term_interrupts():
            session = start_session(
                loaded.name,
                master,
                loaded.conf,
                secret=loaded.secret_conf,
                modules=loaded.modules,
                log=log,
            )
        at_once = AtOnce(session, kept)
        # Until Spark has stopped: a signal meanwhile must not turn a good end into another one.
        with stop_by_signals(at_once) as stop:
            try:
                yield Spark(session, stop, at_once)
            finally:
                # Where the JVM has died there is nothing to stop, and the reason is told already.
                with suppress(Exception):
                    session.stop()


@contextmanager
def _log_file(spark_log: str | None) -> Iterator[tuple[IO[bytes] | None, Path | None]]:
    """Open the file for Spark's log.

    One that nobody asked for is kept only if something fails; then it has to be named.
    """
    if spark_log == "-":
        yield None, None
        return
    if spark_log is not None:
        try:
            log = Path(spark_log).open("ab")  # noqa: SIM115 - closed below
        except OSError as error:
            raise ConfigurationError(
                f"--spark-log {spark_log} cannot be written: {error.strerror}"
            ) from error
        with log:
            yield log, None
        return
    number, name = tempfile.mkstemp(prefix="twophase-spark-", suffix=".log")
    path = Path(name)
    with os.fdopen(number, "ab") as log:
        try:
            yield log, path
        except PipelineWrong:
            # It says nothing that the mistakes do not say.
            path.unlink(missing_ok=True)
            raise
        except BaseException:
            complain(f"Spark's own log is {name}")
            raise
        # What cleans the folder up may have been faster.
        path.unlink(missing_ok=True)


@contextmanager
def term_interrupts() -> Iterator[None]:
    """Let SIGTERM, and Ctrl-C whoever else handles it, interrupt what need not be finished."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signals = (signal.SIGINT, signal.SIGTERM)
    before: dict[int, Any] = {number: signal.signal(number, interrupt) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def served_metrics(place: tuple[str, int] | None) -> Iterator[list[Any]]:
    """Serve the metrics of a run's sinks, if it is to, and yield the hook that they need."""
    if place is None:
        yield []
        return
    from twophase.prometheus import PrometheusHook  # noqa: PLC0415 - needs the extra metrics

    address, port = place
    hook = PrometheusHook()
    endpoint = hook.serve(port, address)
    try:
        yield [hook]
    finally:
        endpoint.close()


@contextmanager
def quiet_logs(hide: Callable[[str], str]) -> Iterator[None]:
    """Let warnings go to stderr, without secrets and without what is told anyway."""
    log = logging.getLogger("twophase")
    handler = _Warnings(logging.WARNING)
    handler.addFilter(lambda record: not hasattr(record, "twophase"))
    handler.setFormatter(_Hiding(hide))
    log.addHandler(handler)
    # It logs the stacks of errors that come back from it, and are told in a sentence here.
    py4j = logging.getLogger("py4j")
    before, py4j.level = py4j.level, logging.CRITICAL
    try:
        yield
    finally:
        log.removeHandler(handler)
        py4j.level = before


class _Warnings(logging.Handler):
    """Writes lines to what stderr is just then: while a line moves there, above that line."""

    def emit(self, record: logging.LogRecord) -> None:
        # Not click.echo, which would write around the line that moves, into the middle of it.
        # Where there is no stderr, print would take stdout.
        if sys.stderr is not None:
            with unheard():
                print(self.format(record), file=sys.stderr)


class _Hiding(logging.Formatter):
    def __init__(self, hide: Callable[[str], str]) -> None:
        super().__init__("%(levelname)s: %(message)s")
        self._hide = hide

    def format(self, record: logging.LogRecord) -> str:
        return self._hide(super().format(record))
