"""A table of a real PostgreSQL keeps the contract, by prepared transactions."""

from uuid import uuid4

import psycopg
import pytest

from twophase.postgres.table import PostgresTable
from twophase.testing import SinkContract, Stage


class TestPostgresTable(SinkContract):
    """All of it, on a real server."""

    @pytest.fixture
    def stage(self, postgres_url, tmp_path):
        """A new table."""
        table = f"contract_{uuid4().hex[:12]}"
        with psycopg.connect(postgres_url) as connection:
            connection.execute(f"CREATE TABLE {table} (id bigint)")

        def visible():
            with psycopg.connect(postgres_url) as connection:
                return [each for (each,) in connection.execute(f"SELECT id FROM {table}")]

        def held():
            query = (
                "SELECT count(*) FROM pg_locks WHERE relation = %s::regclass "
                "AND mode = 'RowExclusiveLock'"
            )
            with psycopg.connect(postgres_url) as connection:
                return connection.execute(query, [table]).fetchone()[0]

        return Stage(
            lambda: PostgresTable(postgres_url, table), visible, tmp_path / "log", held=held
        )
