"""Blocks read by another library: kafka-python's decoder, and a plain model of what to expect."""

from dataclasses import dataclass
from types import SimpleNamespace

import kafka.codec
import pyarrow as pa
from kafka.record import MemoryRecords

from twophase.kafka.blocks import stamp
from twophase.kafka.compression import Codec

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@dataclass(frozen=True)
class Record:
    """One record as a reader sees it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int


def _snappy(data):
    size = shift = at = 0
    while True:
        byte = data[at]
        size |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return pa.decompress(data, decompressed_size=size, codec="snappy", asbytes=True)


class _Zstandard:
    def stream_reader(self, source, **_):
        return pa.CompressedInputStream(pa.PythonFile(source, mode="r"), "zstd")


# kafka-python reads both framings, but leaves the unpacking to packages that are not installed.
kafka.codec.snappy = kafka.codec.snappy or SimpleNamespace(decompress=_snappy)
kafka.codec.zstd = kafka.codec.zstd or SimpleNamespace(ZstdDecompressor=_Zstandard)


def decode(block, producer_id=7, epoch=3, base_sequence=11):
    """Return the block's records as kafka-python reads them, after checking the batch itself."""
    header = stamp(block, producer_id, epoch, base_sequence, transactional=True)
    assert block.size_bytes == len(header) + len(block.body)
    records = MemoryRecords(header + block.body.to_pybytes())
    batch = records.next_batch()
    assert records.next_batch() is None
    assert batch.validate_crc()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (
        producer_id,
        epoch,
        base_sequence,
    )
    assert batch.is_transactional
    assert batch.compression_type == block.codec
    assert batch.last_offset_delta == block.count - 1
    found = list(batch)
    assert [record.offset for record in found] == list(range(block.count))
    timestamps = [record.timestamp for record in found]
    assert block.base_timestamp_ms == min(timestamps)
    assert block.max_timestamp_ms == batch.max_timestamp == max(timestamps)
    return [
        Record(record.key, record.value, tuple(record.headers), record.timestamp)
        for record in found
    ]


def by_partition(blocks):
    """Return all records by topic and partition, in the order of the blocks."""
    found = {}
    for block in blocks:
        found.setdefault((block.topic, block.partition), []).extend(decode(block))
    return found


def raw_size(block):
    """Return the size that the block has without compression."""
    if block.codec is Codec.NONE:
        return block.size_bytes
    unpack = {
        Codec.GZIP: kafka.codec.gzip_decode,
        Codec.SNAPPY: kafka.codec.snappy_decode,
        Codec.LZ4: kafka.codec.lz4_decode,
        Codec.ZSTD: kafka.codec.zstd_decode,
    }
    return 61 + len(unpack[block.codec](block.body.to_pybytes()))
