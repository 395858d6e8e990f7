"""What a run would do, without doing it: the plan of `--dry-run`. Secrets are not in it."""

from dataclasses import dataclass
from typing import Any

from twophase.pipeline.model import Pipeline


@dataclass(frozen=True, slots=True)
class Plan:
    """The pipeline as data for programs, and as lines for people."""

    data: dict[str, Any]
    lines: tuple[str, ...]


def plan_of(pipeline: Pipeline, frame: Any, master: str, *, available_now: bool) -> Plan:
    """Return the plan; `frame` is what goes to the sinks."""
    columns = {each.name: each.dataType.simpleString() for each in frame.schema.fields}
    trigger = "available-now" if available_now else pipeline.trigger
    data: dict[str, Any] = {
        "pipeline": pipeline.name,
        "source": {"kind": pipeline.source.kind, "view": pipeline.source.view}
        | dict(pipeline.source.shown),
        "steps": [
            {"view": step.view, "sql": step.sql}
            if step.sql is not None
            else {"view": step.view, "python": step.python, "from": step.source}
            for step in pipeline.steps
        ],
        "columns": columns,
        "sinks": [
            {
                "kind": sink.kind,
                "sink_id": sink.sink_id,
                **sink.shown,
                "guarantee": sink.promises,
                **({} if sink.sql is None else {"sql": sink.sql}),
            }
            for sink in pipeline.sinks
        ],
        "checkpoint": pipeline.checkpoint,
        "trigger": trigger,
        "output_mode": pipeline.output_mode,
        "restarts": pipeline.restarts,
        "metrics": None if pipeline.metrics is None else "{}:{}".format(*pipeline.metrics),
        "master": master,
        "conf": {
            name: "***" if name in pipeline.secret_conf else value
            for name, value in pipeline.conf.items()
        },
    }
    hide = pipeline.references.hide
    return Plan(_hidden(data, hide), tuple(hide(line) for line in _lines(data)))


def _lines(data: dict[str, Any]) -> list[str]:
    source, sinks = data["source"], data["sinks"]
    lines = [f"pipeline {data['pipeline']}", f"  source   {source['kind']}: {_said(source)}"]
    for step in data["steps"]:
        what = step.get("python") or " ".join(step["sql"].split())
        lines.append(f"  step     {step['view']}: {what}")
    lines.append(
        f"  columns  {', '.join(f'{name} {kind}' for name, kind in data['columns'].items())}"
    )
    for sink in sinks:
        lines.append(f"  sink     {sink['kind']}: {_said(sink)}")
        if "sql" in sink:
            lines.append(f"             sql: {' '.join(sink['sql'].split())}")
    lines += [
        f"  state    {data['checkpoint']}",
        f"  trigger  {data['trigger']}, output mode {data['output_mode']}",
        f"  restarts {data['restarts']} in a row at most",
        *([] if data["metrics"] is None else [f"  metrics  {data['metrics']}"]),
        f"  spark    {data['master']}",
    ]
    return lines + [f"             {name}: {value}" for name, value in data["conf"].items()]


def _said(part: dict[str, Any]) -> str:
    left = {"kind", "sql"}
    return ", ".join(
        f"{name} {value}" for name, value in part.items() if name not in left and value
    )


def _hidden(value: Any, hide: Any) -> Any:
    if isinstance(value, dict):
        return {name: _hidden(each, hide) for name, each in value.items()}
    if isinstance(value, list):
        return [_hidden(each, hide) for each in value]
    return hide(value) if isinstance(value, str) else value
