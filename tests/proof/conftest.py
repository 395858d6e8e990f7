"""Trials on real brokers, whose driver can be told where to die or to wait."""

from contextlib import ExitStack

import pytest

from twophase.verify.history import HistoryFile
from twophase.verify.proxy import KafkaProxy
from twophase.verify.source import Source

from .support_trials import FaultyTrial


@pytest.fixture(params=["kafka", pytest.param("kafka39", marks=pytest.mark.long)])
def broker(request):
    """Both protocol versions; the older one under make test-long only."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def proxy(broker):
    """Between the drivers and the broker."""
    with KafkaProxy(broker.proxied) as running:
        yield running


@pytest.fixture
def open_trial(tmp_path):
    """A function that begins a trial on a cluster: its source is filled, its reader runs.

    With `fill` only so many of the source's rows are there. A second trial of the same `source` is
    another query.
    """
    with ExitStack() as stack:

        def begin(cluster, *, rows=900, fill=None, source=None, name="q", **settings):
            if source is None:
                history = stack.enter_context(HistoryFile(tmp_path / f"{name}.jsonl"))
                source = Source(cluster.bootstrap_servers, rows, history)
                stack.enter_context(source).fill(0, fill)
            return stack.enter_context(FaultyTrial(source, tmp_path / name, **settings))

        yield begin


@pytest.fixture
def far(proxy, broker, open_trial):
    """A function that begins a trial whose drivers go through the proxy; the readers do not."""

    def begin(**settings):
        return open_trial(broker, servers=proxy.bootstrap_servers, **settings)

    return begin
