"""A user's own pipeline in a process of its own, for verifications.

    python -m twophase.spark.proof_pipeline '{"pipeline": ..., "source": ..., ...}'

The one argument is a `PipelineSettings` as JSON. The file is loaded and run by the code of
`twophase run`, between topics of the verification's own. It ends with the process that started it.
"""

import json
import os
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twophase.pipeline.frames import make_views
from twophase.pipeline.load import load_pipeline
from twophase.pipeline.runner import Runner
from twophase.pipeline.stopping import Stop
from twophase.pipeline.verifying import redirected
from twophase.spark.own_cluster import keep_here
from twophase.spark.pipeline_session import start_session
from twophase.spark.proof_query import end_with
from twophase.verify.history import HistoryFile


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """One run: the file, the topics in place of its own, and how its session is made."""

    pipeline: str
    servers: str
    source: str
    target: str
    checkpoint: str
    sink: str
    sink_id: str
    history: str
    rows_per_batch: int
    master: str
    until_used_up: bool = False
    conf: Mapping[str, str] = field(default_factory=dict)


def run(settings: PipelineSettings, history: HistoryFile) -> Any:
    """Run the pipeline until it ends."""
    pipeline = redirected(
        load_pipeline(Path(settings.pipeline)),
        source=settings.source,
        target=settings.target,
        sink_id=settings.sink_id,
        checkpoint=settings.checkpoint,
        rows_per_batch=settings.rows_per_batch,
    )
    # A process that is killed cannot tidy up, so what it leaves behind is with the rest.
    scratch = Path(settings.checkpoint).with_name("scratch")
    scratch.mkdir(parents=True, exist_ok=True)
    keep_here(settings.master, scratch)
    session = start_session(
        pipeline.name,
        settings.master,
        {"spark.local.dir": str(scratch), **pipeline.conf, **settings.conf},
        secret=pipeline.secret_conf,
        modules=pipeline.modules,
    )
    frame = make_views(pipeline, session)
    runner = Runner(
        pipeline,
        frame,
        Stop(),
        lambda _event: None,
        available_now=settings.until_used_up,
        hooks=[history.batch_hook(settings.sink)],
    )
    return runner.run()


def main(argument: str) -> None:
    """Run the pipeline until it ends."""
    settings = PipelineSettings(**json.loads(argument))
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    with HistoryFile(Path(settings.history)) as history:
        run(settings, history)


if __name__ == "__main__":
    main(sys.argv[1])
