"""The table as a JSON schema: `twophase run --schema`, and docs/pipeline.schema.json."""

from typing import Any

from twophase.pipeline.fields import schema_of
from twophase.pipeline.table import PIPELINE


def pipeline_schema() -> dict[str, Any]:
    """Return the schema of a pipeline's file, for editors that complete and check YAML."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A pipeline of twophase",
        "description": "twophase run pipeline.yaml",
        **schema_of(PIPELINE),
    }
