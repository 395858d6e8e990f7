"""`twophase run` with a sink of the user's own: the example, killed in the middle of a batch."""

import os
import shutil
import signal
from pathlib import Path

import pytest
from support.folders import ids_in
from support.pipelines import QUICK, begin, finish, slowed
from support.waiting import wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "parquet_folder.py"

pytestmark = pytest.mark.long


def test_a_store_of_ones_own_killed_in_the_middle_of_a_batch(tmp_path):
    """Rows of the batch were staged, and nobody saw them; started again, each is there once."""
    target, source = tmp_path / "target", tmp_path / "in"
    source.mkdir()
    for at in range(8):
        numbers = range(10 * at, 10 * at + 10)
        (source / f"{at}.txt").write_text("".join(f"{number}\n" for number in numbers))
        # Spark takes the oldest files first.
        os.utime(source / f"{at}.txt", (1_700_000_000 + at, 1_700_000_000 + at))
    shutil.copy(EXAMPLE, tmp_path)
    path = tmp_path / "p.yaml"
    path.write_text(f"""\
source:
  files: {{format: text, path: in, max_files_per_batch: 2}}
steps:
  - {{view: late, python: "slow_step:slowly"}}
  - sql: SELECT CAST(value AS BIGINT) AS id FROM late
sinks:
  - python:
      name: parquet_folder:ParquetFolder
      arguments: {{folder: {target}}}
      sink_id: own-folder
checkpoint: checkpoint
{QUICK}""")
    # The third batch has two tasks, of which the second one waits.
    process = begin(slowed(path, 120, first=50))
    wait_until(lambda: ids_in(target) == list(range(40)) and list(target.glob(".*/*.parquet")), 90)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert ids_in(target) == list(range(40))
    assert list(target.glob(".*/*.parquet"))
    code, told, err = finish(begin(slowed(path, 0), "--available-now"))
    assert (code, err, told[-1]["why"]) == (0, "", "the source is used up")
    batches = [(each["batch"], each["rows"]) for each in told if each["event"] == "batch"]
    assert batches == [(2, 20), (3, 20)]
    assert ids_in(target) == list(range(80))
    assert list(target.glob(".*")) == []
