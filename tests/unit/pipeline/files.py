"""Files of pipelines for the tests: one that is right, and it with something else in it."""

from twophase.pipeline.load import load_pipeline
from twophase.pipeline.mistakes import PipelineWrong

RIGHT = """\
name: orders
kafka:
  kafka.bootstrap.servers: broker:9092
source:
  kafka:
    topic: orders
steps:
  - view: clean
    sql: |
      SELECT key, value
      FROM source
sinks:
  - kafka:
      sink_id: orders-clean
      topic: orders-clean
checkpoint: state
"""


def load(folder, text=RIGHT):
    """Load a text as a pipeline's file."""
    path = folder / "p.yaml"
    path.write_text(text)
    return load_pipeline(path)


def mistakes(folder, text):
    """Return what is wrong with a text, as (line, column, sentence)."""
    try:
        load(folder, text)
    except PipelineWrong as error:
        return [(each.place.line, each.place.column, each.said) for each in error.mistakes]
    return []


def changed(before, after, text=RIGHT):
    """Return the text with one thing changed, which must be there."""
    assert before in text
    return text.replace(before, after)
