"""The example of a sink of one's own keeps the contract."""

import pytest
from parquet_folder import ParquetFolder
from support.folders import ids_in

from twophase.testing import SinkContract, Stage


def stage_in(folder, kind=ParquetFolder):
    """A stage of this kind of sink in a new folder; what it holds is hidden there."""
    target = folder / "target"
    return Stage(
        lambda: kind(target),
        lambda: ids_in(target),
        folder / "log",
        held=lambda: len(list(target.glob(".*"))),
    )


class TestParquetFolder(SinkContract):
    """All of it, on this machine's disk."""

    @pytest.fixture
    def stage(self, tmp_path):
        """A new folder."""
        return stage_in(tmp_path)
