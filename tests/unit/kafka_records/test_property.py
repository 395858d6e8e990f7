"""Any rows, in any Arrow form, come back from another library's decoder as they were."""

import random
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from unit.kafka_records.modelling import (
    BYTE_KINDS,
    NOW_MS,
    PARTITIONS,
    TEXT_KINDS,
    Kinds,
    Row,
    arbitrary,
    batch_of,
    check,
    chunked,
)

from twophase.kafka.compression import Codec
from twophase.kafka.plan import EncodePlan
from twophase.kafka.records import encode, encode_stream

TEXT = st.text(max_size=20)
CONTENT = st.one_of(
    st.none(), TEXT.map(str.encode), st.text("x", min_size=9, max_size=90).map(str.encode)
)
HEADERS = st.one_of(
    st.none(), st.lists(st.tuples(TEXT, st.one_of(st.none(), st.binary(max_size=20))), max_size=3)
)
TIMESTAMPS = st.one_of(
    st.none(), st.integers(0, 2**40), st.integers(NOW_MS - 100, NOW_MS + 10_000), st.just(0)
)
DICTIONARIES = [pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.binary())]
BYTES = st.sampled_from([*BYTE_KINDS, *TEXT_KINDS, *DICTIONARIES])
KINDS = st.builds(
    Kinds,
    value=BYTES,
    key=BYTES,
    topic=BYTES,
    header_list=st.sampled_from([pa.list_, pa.large_list]),
    header_key=st.sampled_from(TEXT_KINDS),
    header_value=st.sampled_from(BYTE_KINDS),
    timestamp=st.sampled_from(
        [pa.int64(), *(pa.timestamp(unit, tz) for unit in ("ms", "us") for tz in (None, "UTC"))]
    ),
    partition=st.sampled_from([pa.int32(), pa.int64()]),
)


@st.composite
def cases(draw):
    """Rows that differ (a number in the key or the value), their Arrow form and a plan."""
    by_column = draw(st.booleans())
    topic = None if by_column else draw(st.sampled_from(sorted(PARTITIONS)))
    absent = draw(st.sets(st.sampled_from(["key", "header_list", "timestamp", "partition"])))
    rows = []
    for number in range(draw(st.integers(0, 12))):
        key, value = draw(CONTENT), draw(CONTENT)
        mark = b"#%d" % number
        if draw(st.booleans()) and "key" not in absent:
            key = (key or b"") + mark
        else:
            value = (value or b"") + mark
        goes_to = topic or draw(st.sampled_from(sorted(PARTITIONS)))
        own = draw(st.one_of(st.none(), st.integers(0, PARTITIONS[goes_to] - 1)))
        headers = draw(HEADERS)
        rows.append(
            Row(
                value=value,
                key=None if "key" in absent else key,
                headers=None if "header_list" in absent or headers is None else tuple(headers),
                timestamp=None if "timestamp" in absent else draw(TIMESTAMPS),
                partition=None if "partition" in absent else own,
                topic=goes_to if by_column else None,
            )
        )
    dropped = dict.fromkeys(absent) | ({} if by_column else {"topic": None})
    plan = EncodePlan(
        partitions=PARTITIONS,
        topic=topic,
        codec=draw(st.sampled_from(Codec)),
        block_bytes=draw(st.sampled_from([70, 200, 1000, 1_000_000])),
        window_bytes=draw(st.sampled_from([1, 300, 2**20])),
    )
    return rows, replace(draw(KINDS), **dropped), plan


@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases(), st.data())
def test_any_rows_in_any_form(case, data):
    """Keys, values, headers, timestamps, partitions and order survive, whatever the Arrow form."""
    rows, kinds, plan = case
    batch = batch_of(rows, kinds)
    start = data.draw(st.integers(0, len(rows)))
    cuts = data.draw(st.lists(st.integers(0, len(rows) - start), max_size=3))
    turn = data.draw(st.integers(0, 20))
    blocks = list(encode(batch.slice(start), plan, now_ms=NOW_MS, spread_from=turn))
    check(rows[start:], plan, blocks)
    table = chunked(batch.slice(start), cuts)
    assert list(encode(table, plan, now_ms=NOW_MS, spread_from=turn)) == blocks
    stream = encode_stream(table.to_batches(), plan, now_ms=NOW_MS, spread_from=turn)
    assert list(stream) == blocks


@pytest.mark.parametrize("seed", range(20))
def test_fuzz(seed):
    """Thousands of rows of every length and kind, in random types, slices, chunks and codecs."""
    rng = random.Random(seed)
    topics = rng.choice([sorted(PARTITIONS), ["gamma"]])
    rows = list(arbitrary(rng, rng.choice([200, 700, 1500]), topics))
    kinds = Kinds(
        value=rng.choice(BYTE_KINDS),
        key=rng.choice([*BYTE_KINDS, pa.dictionary(pa.int32(), pa.binary())]),
        topic=rng.choice([*TEXT_KINDS, *DICTIONARIES]),
        header_list=rng.choice([pa.list_, pa.large_list]),
        header_value=rng.choice(BYTE_KINDS),
        timestamp=rng.choice([pa.int64(), pa.timestamp("ms"), pa.timestamp("ms", "Asia/Tokyo")]),
    )
    plan = EncodePlan(
        partitions=PARTITIONS,
        codec=rng.choice(list(Codec)),
        block_bytes=rng.choice([300, 5_000, 100_000, 1_000_000]),
        window_bytes=rng.choice([5_000, 100_000, 2**26]),
    )
    start, stop = sorted(rng.randrange(len(rows) + 1) for _ in range(2))
    rows, batch = rows[start:stop], batch_of(rows, kinds).slice(start, stop - start)
    cuts = [rng.randrange(len(rows) + 1) for _ in range(rng.randrange(4))]
    blocks = list(encode(chunked(batch, cuts), plan, now_ms=NOW_MS, spread_from=seed))
    check(rows, plan, blocks)
    assert list(encode(batch, plan, now_ms=NOW_MS, spread_from=seed)) == blocks
