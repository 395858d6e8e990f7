"""Encoding takes no more memory than the window allows, whatever the rows look like."""

import subprocess
import sys
from pathlib import Path

import pytest

WINDOW_BYTES = 16 * 2**20
# The promise of EncodePlan: twice the window, and what one group of blocks takes while written.
MOST_BYTES = 2 * WINDOW_BYTES + 24 * 2**20

PROGRAM = """
import sys
from pathlib import Path
import numpy as np
import pyarrow as pa
from twophase.kafka.compression import Codec
from twophase.kafka.plan import EncodePlan
from twophase.kafka.records import encode

shape, window_bytes = sys.argv[1], int(sys.argv[2])

def peak_bytes():
    # Not ru_maxrss: a child starts with what its parent had.
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

def fixed(rows, width):
    data = np.random.default_rng(0).integers(0, 256, rows * width + 1, np.uint8)
    offsets = np.arange(rows + 1, dtype=np.int64) * width
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), rows, buffers)

def headers(rows, each):
    keys, values = pa.array(["h"] * rows * each), pa.nulls(rows * each, pa.binary())
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * each)
    pairs = pa.StructArray.from_arrays([keys, values], ["key", "value"])
    return pa.ListArray.from_arrays(offsets, pairs)

table = {
    "empty": lambda: pa.table({"value": fixed(3_000_000, 0)}),
    "tiny": lambda: pa.table({"value": fixed(3_000_000, 10)}),
    "usual": lambda: pa.table({"value": fixed(1_000_000, 100), "key": fixed(1_000_000, 12),
                               "timestamp": pa.array(np.arange(1_000_000))}),
    "chunks": lambda: pa.concat_tables([pa.table({"value": fixed(10_000, 100)})] * 100),
    "great": lambda: pa.table({"value": fixed(100, 1_000_000)}),
    "headers": lambda: pa.table({"value": fixed(100_000, 10), "headers": headers(100_000, 10)}),
}[shape]()
plan = EncodePlan({"t": 8}, "t", codec=Codec[sys.argv[3]], window_bytes=window_bytes)
for _ in encode(table.slice(0, 10), plan, now_ms=1):
    pass
before = peak_bytes()
for _ in encode(table, plan, now_ms=1):
    pass
print(peak_bytes() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="looks into /proc")
@pytest.mark.parametrize(
    ("shape", "codec"),
    [
        ("empty", "NONE"),
        ("tiny", "NONE"),
        ("usual", "ZSTD"),
        ("chunks", "NONE"),
        ("great", "LZ4"),
        ("headers", "NONE"),
    ],
)
def test_memory_is_bounded_by_the_window(shape, codec):
    """Beside the rows and the blocks handed out, twice the window is enough for all of it."""
    command = [sys.executable, "-c", PROGRAM, shape, str(WINDOW_BYTES), codec]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert int(answer.stdout) <= MOST_BYTES, f"{int(answer.stdout) / 2**20:.0f} MB"
