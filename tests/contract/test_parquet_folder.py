"""The example of a sink of one's own keeps the contract."""

import pytest
from parquet_folder import ParquetFolder
from support.folders import ids_in

from twophase.testing import SinkContract, Stage


class TestParquetFolder(SinkContract):
    """All of it, on this machine's disk."""

    @pytest.fixture
    def stage(self, tmp_path):
        """A new folder."""
        target = tmp_path / "target"
        return Stage(lambda: ParquetFolder(target), lambda: ids_in(target), tmp_path / "log")
