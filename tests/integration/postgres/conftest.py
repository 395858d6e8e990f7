"""A PostgreSQL server for the tests that kill it, and sinks on the shared one."""

import pytest
from support.batch_scope import Sink

from twophase.embedded.postgres import EmbeddedPostgres


@pytest.fixture(scope="module")
def server():
    """A server that the tests may kill, with no sinks but theirs."""
    with EmbeddedPostgres() as found:
        yield found


@pytest.fixture
def make_sink(postgres_url):
    """Make a sink on the shared server."""

    def make(*args, url=postgres_url, **more):
        return Sink(url, *args, **more)

    return make


@pytest.fixture
def sink(make_sink):
    return make_sink()
