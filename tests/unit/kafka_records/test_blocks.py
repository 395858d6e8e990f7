"""The block as a value, and the header that makes it a record batch."""

import pickle
import struct
import subprocess
import sys

import pyarrow as pa
import pytest
from kafka.record import MemoryRecords
from unit.kafka_records.decoding import decode

from twophase.errors import ConfigurationError, ProtocolViolation
from twophase.kafka.blocks import HEADER_BYTES, stamp
from twophase.kafka.compression import Codec
from twophase.kafka.plan import EncodePlan
from twophase.kafka.records import encode


def one_block(values, codec=Codec.NONE, level=None, **options):
    """Return the only block of these values."""
    plan = EncodePlan(partitions={"t": 1}, topic="t", codec=codec, level=level, **options)
    (block,) = encode(pa.table({"value": pa.array(values, pa.binary())}), plan, now_ms=5)
    return block


def test_the_header_field_by_field():
    """Every field stands where the specification puts it."""
    block = one_block([b"a", b"b", b"c"])
    header = stamp(block, 0x1122334455667788, 0x99, 0xAABBCC, transactional=True)
    assert len(header) == HEADER_BYTES == 61
    fields = struct.unpack(">qiibIhiqqqhii", header)
    assert fields[0] == 0
    assert fields[1] == 61 - 12 + len(block.body)
    assert fields[2:4] == (-1, 2)
    assert fields[5:] == (0x10, 2, 5, 5, 0x1122334455667788, 0x99, 0xAABBCC, 3)


def test_without_idempotence():
    """Producer id, epoch and sequence may be -1, as a plain producer sends them."""
    block = one_block([b"a"])
    header = stamp(block, -1, -1, -1, transactional=False)
    batch = MemoryRecords(header + block.body.to_pybytes()).next_batch()
    assert batch.validate_crc()
    assert not batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (-1, -1, -1)
    with pytest.raises(ProtocolViolation):
        stamp(block, -1, -1, -1, transactional=True)


def test_every_bit_is_under_the_checksum():
    """A header for another identity, or a flipped bit in the body, has another checksum."""
    block = one_block([b"abc"])
    first, second = (stamp(block, 1, 0, seq, transactional=True) for seq in (0, 1))
    assert first[17:21] != second[17:21]
    body = bytearray(block.body.to_pybytes())
    body[-2] ^= 1
    assert not MemoryRecords(first + bytes(body)).next_batch().validate_crc()


def test_blocks_survive_pickling_and_compare_by_content():
    """A block that went through another process is the same block."""
    block = one_block([b"a", None, b"b" * 1000], Codec.ZSTD)
    again = pickle.loads(pickle.dumps(block, protocol=5))
    assert again == block
    assert decode(again) == decode(block)


@pytest.mark.parametrize("codec", Codec)
def test_codecs(codec):
    """Every codec makes repetitive rows smaller, and another library reads them back."""
    values = [b"all the same " * 5] * 500
    block = one_block(values, codec)
    assert block.codec is codec
    assert [record.value for record in decode(block)] == values
    if codec is not Codec.NONE:
        assert block.size_bytes < one_block(values).size_bytes / 4


@pytest.mark.parametrize("codec", Codec)
def test_noise_is_sent_as_it_is(codec):
    """What a codec would make greater stays raw and says so."""
    block = one_block([b"\x07"], codec)
    assert block.codec is Codec.NONE
    assert [record.value for record in decode(block)] == [b"\x07"]


@pytest.mark.parametrize(
    ("codec", "levels"), [(Codec.GZIP, (1, 9)), (Codec.LZ4, (1, 12)), (Codec.ZSTD, (1, 19))]
)
def test_levels(codec, levels):
    """A higher level gives fewer bytes."""
    values = [b'{"id": %d, "of": "customer-%d"}' % (n, n * 7919 % 1000) for n in range(3000)]
    low, high = (one_block(values, codec, level) for level in levels)
    assert high.size_bytes < low.size_bytes
    assert [record.value for record in decode(high)] == values


def test_snappy_has_the_frame_that_java_writes():
    """snappy-java's stream: magic, version 1, compatible with 1, then length and content."""
    body = one_block([b"all the same " * 5] * 500, Codec.SNAPPY).body.to_pybytes()
    assert body[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    assert int.from_bytes(body[16:20], "big") == len(body) - 20


def test_lz4_has_independent_blocks():
    """Kafka's reader refuses linked blocks, and blocks above its size; both are in two bytes."""
    body = one_block([b"all the same " * 50] * 500, Codec.LZ4).body.to_pybytes()
    assert body[:4] == b"\x04\x22\x4d\x18"
    flags, descriptor = body[4], body[5]
    assert flags >> 6 == 1, "version"
    assert flags & 0x20, "blocks are independent"
    assert not flags & 0x08, "no content size"
    assert (descriptor >> 4) & 7 == 4, "64 kB"


def test_codecs_by_name():
    """Java's names are read, and others refused with the list of what is allowed."""
    assert Codec.named("zstd") is Codec.ZSTD
    with pytest.raises(ConfigurationError, match="'brotli'; allowed are none, gzip, snappy"):
        Codec.named("brotli")


def test_a_machine_without_a_compiled_checksum():
    """The pure Python checksum is refused at once, with what to do: it would look like a hang."""
    program = (
        "import google_crc32c; google_crc32c.implementation = 'python'\n"
        "from twophase.errors import SetupError\n"
        "try:\n    import twophase.kafka.blocks\n"
        "except SetupError as error:\n    print(error)\n"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert answer.stdout.startswith(b"TWOPHASE_SETUP: google-crc32c has no compiled checksum")
