"""The PostgreSQL server of the tests."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from support.steps import REFUSED
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


def server_dies(server, driver, run, where):
    """Kill the server while a driver waits at a step; run drivers until one ends well."""
    with driver:
        assert driver.stdout.readline() == "here\n", where
        server.kill()
        server.start()
        said, _ = driver.communicate("go on\n", timeout=120)
    code = driver.returncode
    for _ in range(3):
        assert code in {0, REFUSED}, (where, said)
        if code == 0:
            break
        code, said = run()
    assert code == 0, (where, said)
