import contextlib
from collections.abc import Callable, Iterator

import pytest
from unit.proxy.echo import Client, EchoBroker

from twophase.embedded.ports import free_ports
from twophase.verify.proxy import KafkaProxy


@pytest.fixture
def broker() -> Iterator[EchoBroker]:
    """Run a broker that answers every request with its own body."""
    echo = EchoBroker()
    yield echo
    echo.close()


@pytest.fixture
def port() -> int:
    """Find a port on which nobody listens."""
    return free_ports(1)[0]


@pytest.fixture
def proxy(broker: EchoBroker, port: int) -> Iterator[KafkaProxy]:
    """Run the proxy before that broker."""
    with KafkaProxy({port: broker.address}) as running:
        yield running


@pytest.fixture
def connect(proxy: KafkaProxy, port: int) -> Iterator[Callable[[], Client]]:  # noqa: ARG001
    """Make clients of the proxy."""
    with contextlib.ExitStack() as stack:

        def make() -> Client:
            client = Client(port)
            stack.callback(client.sock.close)
            return client

        yield make
