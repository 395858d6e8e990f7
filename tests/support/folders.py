"""What a reader of a folder of Parquet files sees."""

from pyarrow import dataset


def ids_in(folder):
    """All ids, sorted; hidden folders are not looked into."""
    files = [str(path) for path in folder.glob("[!.]*/*.parquet")]
    return sorted(dataset.dataset(files).to_table()["id"].to_pylist()) if files else []
