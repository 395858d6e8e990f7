"""A PostgreSQL server for the tests that kill it."""

import pytest

from twophase.embedded.postgres import EmbeddedPostgres


@pytest.fixture(scope="module")
def server():
    """A server that the tests may kill, with no sinks but theirs."""
    with EmbeddedPostgres() as found:
        yield found
