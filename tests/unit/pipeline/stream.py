"""A query as Spark runs one: in a thread, with batches that have no rows, to real sinks."""

import json
import threading
from types import SimpleNamespace

from twophase.pipeline.runner import Runner
from twophase.pipeline.stopping import Stop
from twophase.pipeline.table import CONTINUOUSLY


class Stream:
    """The frame of a query: what it has committed stays over starts, as a checkpoint does."""

    def __init__(self, batches, *, described="Rate", refuses=()):
        self.batches, self.described, self._refuses = batches, described, list(refuses)
        self.committed = -1
        self.stopped = threading.Event()
        self.starts = 0
        self.writeStream = self

    def foreachBatch(self, write):  # noqa: N802 - as Spark names it
        self._write = write
        return self

    def __getattr__(self, name):
        if name in {"queryName", "outputMode", "option", "trigger"}:
            return lambda *_, **__: self
        raise AttributeError(name)

    def start(self):
        self.starts += 1
        if self._refuses and (error := self._refuses.pop(0)) is not None:
            raise error
        return _Query(self, self._write)


class _Query:
    status = {"message": "waiting"}  # noqa: RUF012

    def __init__(self, stream, write):
        self._stream, self._write = stream, write
        self._error = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        thread = SimpleNamespace(sleep=self._asleep)
        jvm = SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(Thread=thread)))
        frame = SimpleNamespace(
            sparkSession=SimpleNamespace(_jvm=jvm), persist=lambda: frame, unpersist=lambda: None
        )
        while self._stream.committed + 1 < self._stream.batches and not self._stop.is_set():
            try:
                self._write(frame, self._stream.committed + 1)
            except Exception as error:  # noqa: BLE001 - as Spark does
                self._error = None if self._stop.is_set() else error
                return
            self._stream.committed += 1

    def _asleep(self, _ms):
        self._stop.wait()
        raise InterruptedError

    @property
    def isActive(self):  # noqa: N802
        return self._thread.is_alive()

    def exception(self):
        return self._error

    @property
    def lastProgress(self):  # noqa: N802
        if self._stream.committed < 0:
            return None
        at = {"description": self._stream.described, "endOffset": self._stream.committed}
        return SimpleNamespace(
            json=json.dumps({"batchId": self._stream.committed, "sources": [at]})
        )

    def stop(self):
        self._stop.set()
        self._thread.join(10)


def runner_of(
    stream, *sinks, tell=None, stop=None, restarts=3, hide=str, available_now=True, checkpoint="/c"
):
    """Return a runner whose sinks are functions of no argument that return one, and its events."""
    told = []
    pipeline = SimpleNamespace(
        name="p",
        checkpoint=checkpoint,
        output_mode="append",
        trigger=CONTINUOUSLY,
        restarts=restarts,
        last_view="source",
        references=SimpleNamespace(hide=hide),
        sinks=tuple(
            SimpleNamespace(sink_id=f"s{at}", sql=None, make=lambda _hooks, make=make: make())
            for at, make in enumerate(sinks)
        ),
    )

    def both(event):
        told.append(event)
        if tell is not None:
            tell(event)

    runner = Runner(pipeline, stream, stop or Stop(), both, available_now=available_now)
    return runner, told
