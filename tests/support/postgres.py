"""The PostgreSQL server of the tests."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from twophase.embedded.postgres import EmbeddedPostgres


@contextmanager
def server_url() -> Iterator[str]:
    """Yield how to reach the user's own server, if one is named, else one that is started here."""
    given = os.environ.get("TWOPHASE_POSTGRES_URL")
    if given:
        yield given
        return
    with EmbeddedPostgres() as server:
        yield server.url
