"""Statements that a process sends to PostgreSQL, as its steps."""

import psycopg


def watch(steps):
    """Make a step of every statement."""
    execute, command = psycopg.Connection.execute, psycopg.Connection._exec_command

    def executed(self, query, *args, **more):
        text = query if isinstance(query, str) else query.as_string(self)
        with steps.step(" ".join(text.split())[:60]):
            return execute(self, query, *args, **more)

    def commanded(self, text, *args, **more):
        with steps.step(text.decode()):
            return (yield from command(self, text, *args, **more))

    psycopg.Connection.execute = executed
    psycopg.Connection._exec_command = commanded
