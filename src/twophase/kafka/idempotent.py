"""Producer ids outside of any transaction: asked for once, then one epoch for each sender.

A broker remembers the last batches of every producer id, per partition, for a day. So a process
keeps its id, and each new sender raises the epoch by itself, as Java's idempotent producer does:
the broker takes any higher epoch, forgets the sequence of the older one, and refuses whatever an
older sender has still on its way. A new sender under the *same* epoch would begin again with
sequence 0, and the broker would take its blocks for repeats and not write them.
"""

import time
from typing import Any, Final

from kafka.protocol.producer.transaction import InitProducerIdRequest

from twophase.errors import StoreUnavailable
from twophase.kafka import answers
from twophase.kafka.coordinator import Asking, Question
from twophase.kafka.identity import Producer
from twophase.kafka.wire import TRANSACTION, Wire
from twophase.options import INT_MAX

_EPOCH_MAX: Final = 2**15 - 1
_PAUSE_S: Final = 0.1


class ProducerIds:
    """One producer id for all senders of this process, which follow one another."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._last: Producer | None = None

    def following(self) -> Producer:
        """Return the producer of the next sender; the sender before it is fenced by it."""
        last = self._last
        if last is None or last.epoch >= _EPOCH_MAX:
            self._last = idempotent_producer(self._wire)
        else:
            self._last = Producer(last.producer_id, last.epoch + 1)
        return self._last


def idempotent_producer(wire: Wire) -> Producer:
    """Return a producer id that nobody else has; any broker gives one out."""

    def request() -> Any:
        return InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=INT_MAX, min_version=3, max_version=5
        )

    asking = Asking(
        Question(
            kind=TRANSACTION,
            key="a new producer id",
            request=request,
            codes=lambda answer: (answer.error_code,),
            table=answers.INIT_PRODUCER_ID,
        )
    )
    limit_ms = wire.options.max_block_ms
    deadline = time.monotonic() + limit_ms / 1000
    while not wire.broken:
        try:
            answer = wire.ask(request())
        except StoreUnavailable as error:
            asking.unanswered(error, asked=True)
        else:
            if asking.answered((answer.error_code,)) is None:
                return Producer(answer.producer_id, answer.producer_epoch)
        if time.monotonic() >= deadline:
            raise asking.out_of_time(limit_ms)
        time.sleep(_PAUSE_S)
    raise asking.refusal(StoreUnavailable, "the connection to the brokers is closed")
