"""Pipelines without code: a YAML file, checked whole, and the query that it describes.

    document    text to nodes with line and column; nothing that YAML could do beyond data
    fields      the small language in which the table is written
    table       every key of the file: what is allowed, its default, what it means
    reading     nodes against the table: typed values, and every mistake at once
    references  ${env:NAME} and ${file:PATH}, the only way in for secrets
    load        all of it: a path to a `Pipeline`, or `PipelineWrong`
    schema      the table as a JSON schema, for editors

The page docs/pipelines.md and the JSON schema are made from the same table.
"""
