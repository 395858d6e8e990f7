"""A topic as readers saw it, made by hand, in which anomalies are planted."""

from dataclasses import dataclass

import numpy as np

from twophase.verify.batches import Batches
from twophase.verify.checker import Running, check
from twophase.verify.looks import Look
from twophase.verify.rows import Input
from twophase.verify.seen import collect

NOW_MS = 1_763_273_670_123
PARTITIONS = 3
BATCH_ROWS = 20


@dataclass
class Row:
    """One row as a client library hands it over."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class Topic:
    """The rows of an input, laid out by key as a clean sink does: batch after batch."""

    def __init__(self, rows=120, keys=10):
        self.input = Input("planted", rows, keys)
        self.log = {partition: [] for partition in range(PARTITIONS)}
        for number in range(rows):
            self.log[self.home(number)].append(self.made(number))

    def home(self, number):
        return number % self.input.keys % PARTITIONS

    def made(self, number):
        return self.input.key(number), self.input.value(number, NOW_MS)

    def at(self, number):
        """Where a row stands: its partition's rows and the index among them."""
        log = self.log[self.home(number)]
        return log, log.index(self.made(number))

    def lose(self, number):
        log, at = self.at(number)
        del log[at]

    def double(self, number, after=0):
        """Write a row again, so many rows later."""
        log, at = self.at(number)
        log.insert(at + 1 + after, self.made(number))

    def delay(self, number):
        """Let a row come after the next one of its key."""
        log, at = self.at(number)
        _, later = self.at(number + self.input.keys)
        log.insert(later, log.pop(at))

    def stray(self, number):
        """Write a row to a partition that is not its key's."""
        self.lose(number)
        self.log[(self.home(number) + 1) % PARTITIONS].append(self.made(number))

    def corrupt(self, number):
        log, at = self.at(number)
        key, value = log[at]
        log[at] = (key, value.replace(b'"quantity":', b'"quantity":4'))

    def add_strange(self, value=b"hello", partition=0):
        self.log[partition].append((b"somebody", value))

    def rows(self):
        """The rows as read; the ends of transactions leave gaps between the offsets."""
        return [
            Row(partition, at + at // 5, key, value)
            for partition, log in self.log.items()
            for at, (key, value) in enumerate(log)
        ]

    def seen(self):
        return collect(self.input, self.rows())

    def batches(self):
        return Batches((np.arange(self.input.rows) // BATCH_ROWS).astype(np.int32))

    def running(self, looks=(), rows=None):
        """A reader that ran all along and saw the same, or these rows."""
        seen = self.seen() if rows is None else collect(self.input, rows)
        reached = {
            partition: int(places.offsets[-1]) + 1 for partition, places in seen.partitions.items()
        }
        return Running(seen, reached, looks, 0.25)

    def check(self, **evidence):
        given = {"running": self.running(), "batches": self.batches(), "left_open": ()}
        return check("sink", self.input, self.seen(), **(given | evidence))

    def ends(self, first=0, stop=None, step=BATCH_ROWS):
        """After each batch, the offset behind its last row in each partition."""
        places = {self.input.identify(row.key, row.value): row for row in self.rows()}
        ends = dict.fromkeys(range(PARTITIONS), 0)
        for number in range(first, stop or self.input.rows):
            row = places[number]
            ends[row.partition] = max(ends[row.partition], row.offset + 1)
            if (number + 1) % step == 0:
                yield dict(ends)


def looks(stable, *, settled=(), every_s=0.05):
    """Looks that show these last stable offsets; all settled unless told otherwise."""
    return [
        Look(at * every_s, ends, ends, settled[at] if settled else True)
        for at, ends in enumerate(stable)
    ]


def counts(verdict):
    """What was found, by kind, without what was not."""
    return {str(finding.kind): finding.count for finding in verdict.findings if finding.count}
