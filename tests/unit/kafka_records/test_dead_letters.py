"""Rows that cannot be written become dead letters: all rows are somewhere, once, in order."""

import hashlib
import random
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest
from unit.kafka_records.decoding import HEADERS, by_partition
from unit.kafka_records.modelling import (
    BYTE_KINDS,
    NOW_MS,
    PARTITIONS,
    TEXT_KINDS,
    Kinds,
    arbitrary,
    batch_of,
    check,
    chunked,
)

from twophase.errors import ConfigurationError, RowRejected
from twophase.kafka.compression import Codec
from twophase.kafka.dead_letters import DeadLetters, is_topic_name
from twophase.kafka.faults import Reason
from twophase.kafka.letters import PREFIX
from twophase.kafka.plan import EncodePlan
from twophase.kafka.records import encode, encode_stream
from twophase.kafka.topic_rules import TopicRule, rule_in

DEAD = DeadLetters("dead", "orders", 7)
COUNTS = PARTITIONS | {"dead": 2}
PLAN = EncodePlan({"t": 3, "dead": 2}, "t", dead=DEAD)
BY_COLUMN = replace(PLAN, topic=None)


def sorted_out(columns, plan=PLAN, **more):
    """Encode, and return the values written and the letters, in order of partition and offset."""
    found = by_partition(encode(pa.table(columns), plan, now_ms=NOW_MS, **more))
    letters = [
        record for (topic, _), records in found.items() for record in records if topic == "dead"
    ]
    written = [
        record.value
        for (topic, _), records in sorted(found.items())
        for record in records
        if topic != "dead"
    ]
    return written, letters


def said(letter):
    """What a letter's own headers say, as texts."""
    return {
        key.removeprefix(PREFIX): value.decode()
        for key, value in letter.headers
        if key.startswith(PREFIX)
    }


BAD_HEADERS = pa.array([[], [{"key": None, "value": b"h"}], None], HEADERS)


@pytest.mark.parametrize(
    ("columns", "plan", "reason", "words"),
    [
        ({"partition": [0, 3, 1]}, PLAN, Reason.PARTITION, "partition is 3; the topic has"),
        ({"partition": [0, -1, 1]}, PLAN, Reason.PARTITION, "partition is -1"),
        ({"timestamp": [0, -5, 1]}, PLAN, Reason.TIMESTAMP, "timestamp is -5 ms"),
        ({"headers": BAD_HEADERS}, PLAN, Reason.HEADER, "header 0 has no key"),
        ({"topic": ["t", None, "t"]}, BY_COLUMN, Reason.TOPIC_NULL, "topic is null"),
        ({"topic": ["t", "a b", "t"]}, BY_COLUMN, Reason.TOPIC_INVALID, "'a b' is not a valid"),
        ({"topic": ["t", "no", "t"]}, BY_COLUMN, Reason.TOPIC_UNKNOWN, "'no' does not exist"),
        (
            {"topic": ["t", "dead", "t"]},
            BY_COLUMN,
            Reason.TOPIC_OF_DEAD_LETTERS,
            "own dead-letter topic",
        ),
        (
            {"key": [b"k", b"k" * 90, b"k"]},
            replace(PLAN, record_limit_bytes=160),
            Reason.SIZE,
            "the limit is 160",
        ),
    ],
)
def test_each_reason(columns, plan, reason, words):
    """The row is in a letter with its reason and a sentence; those around it are written."""
    written, (letter,) = sorted_out({"value": [b"a", b"bad", b"c"], **columns}, plan)
    assert sorted(written) == [b"a", b"c"]
    assert letter.value == b"bad"
    found = said(letter)
    assert found["reason"] == reason
    assert words in found["message"]
    assert (found["sink"], found["batch"], "run" in found) == ("orders", "7", False)
    topic = columns.get("topic", ["t"] * 3)[1]
    assert found.get("topic") == topic
    for name in ("partition", "timestamp"):
        assert found.get(name) == (str(columns[name][1]) if name in columns else None)


def test_reasons_and_headers_are_for_ever():
    """People write programs against these texts."""
    columns = {"value": [noise(9_000)], "key": [noise(9_000)], "timestamp": [1], "partition": [9]}
    plan = limited(2_000, topic=None, dead=replace(DEAD, run_id="r"))
    _, (letter,) = sorted_out(columns | {"topic": ["x" * 1_001]}, plan)
    assert [key.removeprefix("twophase.reject.") for key, _ in letter.headers] == [
        "reason",
        "message",
        "topic",
        "topic.bytes",
        "topic.sha256",
        "partition",
        "timestamp",
        "sink",
        "batch",
        "run",
        "value.bytes",
        "value.sha256",
        "key.bytes",
        "key.sha256",
    ]
    assert [*Reason] == [
        "topic-null",
        "topic-invalid",
        "topic-unknown",
        "topic-of-dead-letters",
        "partition-out-of-range",
        "timestamp-not-allowed",
        "header-without-key",
        "key-missing",
        "too-large",
    ]


def test_a_letter_keeps_what_the_row_had():
    """Key, value and headers, also those of an earlier letter; its own time is in a header."""
    old = {"key": f"{PREFIX}reason", "value": b"earlier"}
    headers = pa.array([[{"key": "h", "value": None}, old, {"key": None, "value": b"x"}]], HEADERS)
    columns = {
        "value": pa.array([None], pa.binary()),
        "key": [b"\xff"],
        "headers": headers,
        "timestamp": [5],
        "partition": [9],
    }
    dead = replace(DEAD, run_id="r-1")
    _, (letter,) = sorted_out(columns, replace(PLAN, dead=dead))
    assert (letter.key, letter.value, letter.timestamp) == (b"\xff", None, NOW_MS)
    assert letter.headers[:3] == (("h", None), (f"{PREFIX}reason", b"earlier"), ("", b"x"))
    # The last one of a name is this sink's, which is the one that Java's lastHeader returns.
    assert said(letter)["reason"] == Reason.PARTITION
    assert said(letter) | {"run": "r-1", "timestamp": "5", "partition": "9"} == said(letter)


def test_a_row_with_several_faults_is_one_letter():
    """The first fault is told."""
    columns = {"value": [b"v"], "partition": [5], "timestamp": [-1], "topic": ["no"]}
    _, (letter,) = sorted_out(columns, BY_COLUMN)
    assert said(letter)["reason"] == Reason.TOPIC_UNKNOWN
    del columns["topic"]
    _, (letter,) = sorted_out(columns)
    assert said(letter)["reason"] == Reason.PARTITION


def spoil(rng, row, topic):
    """Give a row one fault that a check before the encoder finds."""
    bad = {
        "partition": rng.choice([-1, PARTITIONS[topic], 2**31 - 1]),
        "timestamp": rng.choice([-1, -(2**40)]),
        "headers": ((None, b"x"), ("h", b"y")),
        "topic": rng.choice([None, "", "no such", "unknown", "dead"]),
        "value": b"#L" + rng.randbytes(20_000),
    }
    name = rng.choice(list(bad))
    return replace(row, **{name: bad[name]})


def of_letters(block):
    return block.topic == "dead"


def as_letter(row):
    """What a letter must have of a row: all but its topic, partition and time."""
    headers = tuple((key or "", value) for key, value in row.headers or ())
    return row.key, row.value, headers


@pytest.mark.parametrize("seed", range(8))
def test_any_mixture(seed):
    """Every row is written or in a letter, once and in order, however the rows are chunked."""
    rng = random.Random(seed)
    share = rng.choice([0.0, 0.02, 0.5, 1.0])
    rows, wrong = [], []
    for made in arbitrary(rng, rng.choice([1, 200, 600]), sorted(PARTITIONS)):
        # Not too large by its headers: what is rejected is what the test has spoilt.
        much = sum(len(key) + len(value or b"") for key, value in made.headers or ()) > 2_000
        row = replace(made, headers=None) if much else made
        rejected = rng.random() < share
        rows.append(spoil(rng, row, row.topic) if rejected else row)
        wrong.append(rejected)
    kinds = Kinds(
        value=rng.choice(BYTE_KINDS),
        key=rng.choice([*BYTE_KINDS, pa.dictionary(pa.int32(), pa.binary())]),
        topic=rng.choice([*TEXT_KINDS, pa.dictionary(pa.int8(), pa.string())]),
        header_list=rng.choice([pa.list_, pa.large_list]),
        timestamp=pa.int64(),
    )
    plan = EncodePlan(
        COUNTS,
        codec=rng.choice(list(Codec)),
        block_bytes=rng.choice([300, 100_000]),
        window_bytes=rng.choice([5_000, 2**26]),
        record_limit_bytes=20_000,
        dead=DEAD,
        rules={"dead": TopicRule(block_bytes=100_000)},
    )
    batch = batch_of(rows, kinds)
    cuts = [rng.randrange(len(rows) + 1) for _ in range(rng.randrange(6))]
    blocks = list(encode(batch, plan, now_ms=NOW_MS, spread_from=seed))
    stream = encode_stream(chunked(batch, cuts).to_batches(), plan, now_ms=NOW_MS, spread_from=seed)
    # Only how the letters' blocks lie among the others follows the chunks.
    assert sorted(stream, key=of_letters) == sorted(blocks, key=of_letters)
    letters = {
        place: records for place, records in by_partition(blocks).items() if place[0] == "dead"
    }
    check(
        [row for row, bad in zip(rows, wrong, strict=True) if not bad],
        plan,
        [block for block in blocks if block.topic != "dead"],
    )
    expected = [as_letter(row) for row, bad in zip(rows, wrong, strict=True) if bad]
    found = []
    for records in letters.values():
        here = [
            (
                record.key,
                record.value,
                tuple(pair for pair in record.headers if not pair[0].startswith(PREFIX)),
            )
            for record in records
        ]
        at = [expected.index(one) for one in here if expected.count(one) == 1]
        assert at == sorted(at)
        found += here
    assert Counter(found) == Counter(expected)


def test_the_check_costs_a_letter_only_where_there_is_one(monkeypatch):
    """Without a row to reject, batches go on as they came, and no letter is begun."""
    monkeypatch.setattr("twophase.kafka.sieve.letters_of", None)
    batch = batch_of(list(arbitrary(random.Random(1), 500, ["gamma"])))
    plan = EncodePlan(COUNTS, dead=DEAD)
    with_dead = list(encode(batch, plan, now_ms=NOW_MS))
    assert with_dead == list(encode(batch, replace(plan, dead=None), now_ms=NOW_MS))


def noise(size):
    return random.Random(0).randbytes(size)


def limited(limit, **more):
    """A plan whose dead-letter topic takes blocks of so many bytes."""
    rules = {"dead": TopicRule(block_bytes=limit)}
    return replace(PLAN, record_limit_bytes=1_000, rules=rules, **more)


def test_a_letter_as_large_as_its_topic_allows_is_whole():
    """The limit is that of the dead-letter topic, in compressed bytes, as the broker counts."""
    value = bytes(500_000)
    _, (letter,) = sorted_out({"value": [value]}, limited(5_000, codec=Codec.ZSTD))
    assert letter.value == value
    assert "value.bytes" not in said(letter)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("limit", [1_200, 5_000])
def test_a_letter_that_is_too_large_is_cut_and_says_so(codec, limit):
    """The value's beginning, its whole length and its checksum; the block is within the limit."""
    value, small = noise(20_000), b"x" * 950
    columns = {"value": [b"ok", value, small], "key": ["a", "k", "b"]}
    blocks = list(encode(pa.table(columns), limited(limit, codec=codec), now_ms=NOW_MS))
    assert all(block.size_bytes <= limit for block in blocks if block.topic == "dead")
    _, letters = sorted_out(columns, limited(limit, codec=codec))
    letter = next(one for one in letters if one.key == b"k")
    assert value.startswith(letter.value)
    assert 0 < limit - len(letter.value) < 800
    assert said(letter)["value.bytes"] == "20000"
    assert said(letter)["value.sha256"] == hashlib.sha256(value).hexdigest()
    assert said(letter)["reason"] == Reason.SIZE
    assert "key.bytes" not in said(letter)


def test_a_key_is_cut_after_the_value():
    """And says so too."""
    key = noise(3_000)
    _, (letter,) = sorted_out({"value": [b"v" * 50], "key": [key]}, limited(1_500))
    assert letter.value == b""
    assert key.startswith(letter.key)
    assert said(letter)["value.bytes"] == "50"
    assert said(letter)["key.bytes"] == "3000"
    assert said(letter)["key.sha256"] == hashlib.sha256(key).hexdigest()


def test_headers_that_fit_nowhere_fail_the_batch():
    """Nothing of a row is dropped without a word."""
    headers = pa.array([[{"key": "h", "value": noise(3_000)}]], HEADERS)
    with pytest.raises(RowRejected, match=r"raise the dead-letter topic's max\.message\.bytes"):
        sorted_out({"value": [b"v"], "headers": headers}, limited(1_500))


def test_a_topic_s_text_of_any_length_fits_into_its_header():
    """A column that holds no topic's name may hold anything."""
    name = "x" * 100_000
    _, (letter,) = sorted_out({"value": [b"v"], "topic": [name]}, BY_COLUMN)
    assert said(letter)["topic"] == "x" * 1_000
    assert said(letter)["topic.bytes"] == "100000"
    assert len(said(letter)["message"]) < 300


def strict(**rule):
    """A plan that holds the rows of t against its topic's own settings."""
    rules = {"t": TopicRule(**rule), "dead": TopicRule(block_bytes=1_000_000)}
    return replace(PLAN, rules=rules, strict=True, dead=replace(DEAD, strict=True))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_the_size_that_a_topic_takes(codec):
    """Blocks are cut to it, and only a row that alone is larger, compressed, is rejected."""
    rows = [(b"%d" % at, b"x" * 300 if at % 7 else noise(2_000)) for at in range(100)]
    rows.append((b"flat", bytes(5_000)))
    columns = {"key": [key for key, _ in rows], "value": [value for _, value in rows]}
    plan = replace(strict(block_bytes=1_000), codec=codec)
    blocks = list(encode(pa.table(columns), plan, now_ms=NOW_MS))
    assert all(block.size_bytes <= 1_000 for block in blocks if block.topic == "t")
    written, letters = sorted_out(columns, plan)
    assert Counter(written) + Counter(one.value for one in letters) == Counter(columns["value"])
    large = {value for _, value in rows if len(value) == 2_000}
    flat = set() if codec is Codec.ZSTD else {bytes(5_000)}
    assert {one.value for one in letters} == large | flat
    assert all("topic 't' takes 1000" in said(one)["message"] for one in letters)


def test_the_times_that_a_topic_takes():
    """Too old and too far ahead, by the topic's settings."""
    times = [NOW_MS - 101, NOW_MS - 100, None, NOW_MS + 200, NOW_MS + 201]
    columns = {"value": [b"%d" % at for at in range(5)], "timestamp": pa.array(times, pa.int64())}
    written, letters = sorted_out(columns, strict(before_ms=100, after_ms=200))
    assert sorted(written) == [b"1", b"2", b"3"]
    assert sorted(one.value for one in letters) == [b"0", b"4"]
    assert {said(one)["reason"] for one in letters} == {Reason.TIMESTAMP}


def test_the_key_that_a_compacted_topic_needs():
    """Rows without one are rejected, also where there is no such column."""
    columns = {"value": [b"a", b"b"], "key": pa.array([None, b"k"], pa.binary())}
    written, (letter,) = sorted_out(columns, strict(key_needed=True))
    assert (written, letter.value, said(letter)["reason"]) == ([b"b"], b"a", Reason.KEY)
    written, letters = sorted_out({"value": [b"a"]}, strict(key_needed=True))
    assert (written, len(letters)) == ([], 1)


def test_what_settings_say():
    """As Kafka 4 and Kafka 3 have them; what may not be read is no rule."""
    newer = {
        "max.message.bytes": "1000",
        "segment.bytes": "2000",
        "cleanup.policy": "compact,delete",
        "message.timestamp.type": "CreateTime",
        "message.timestamp.before.max.ms": str(2**63 - 1),
        "message.timestamp.after.max.ms": "3600000",
    }
    assert rule_in(newer) == TopicRule(1_000, None, 3_540_000, key_needed=True)
    older = newer | {
        "cleanup.policy": "delete",
        "message.timestamp.after.max.ms": str(2**63 - 1),
        "message.timestamp.difference.max.ms": "1000",
    }
    assert rule_in(older) == TopicRule(1_000, 500, 500)
    assert rule_in(newer | {"message.timestamp.type": "LogAppendTime"}).after_ms is None
    assert rule_in(None) == TopicRule()


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("a", True),
        ("A-b_c.9", True),
        ("", False),
        (".", False),
        ("..", False),
        ("a b", False),
        ("ä", False),
        ("x" * 249, True),
        ("x" * 250, False),
        ("a\n", False),
        # Kafka's own, which answer a producer with INVALID_TOPIC_EXCEPTION for ever.
        ("__consumer_offsets", False),
        ("__transaction_state", False),
        ("__mine", True),
    ],
)
def test_names_of_topics(name, good):
    """Kafka's own rule."""
    assert is_topic_name(name) is good


def test_a_compacted_topic_takes_no_letters():
    """Of those with one key it would keep the last one only."""
    rules = {"dead": TopicRule(key_needed=True)}
    plan = EncodePlan(COUNTS, dead=DEAD, rules=rules)
    with pytest.raises(ConfigurationError, match="dead_letter_topic 'dead' is compacted"):
        plan.for_letters(DEAD)
