"""The example of a sink of one's own keeps the contract."""

import pytest
from parquet_folder import ParquetFolder
from pyarrow import dataset

from twophase.testing import SinkContract, Stage


def ids_in(folder):
    """What a reader of the folder sees."""
    files = [str(path) for path in folder.glob("[!.]*/*.parquet")]
    return dataset.dataset(files).to_table()["id"].to_pylist() if files else []


class TestParquetFolder(SinkContract):
    """All of it, on this machine's disk."""

    @pytest.fixture
    def stage(self, tmp_path):
        """A new folder."""
        target = tmp_path / "target"
        return Stage(lambda: ParquetFolder(target), lambda: ids_in(target), tmp_path / "log")
