"""The user's own code on the workers: packages and modules beside the file, imported there."""

import pytest
from support.pipelines import begin, fill, finish, kafka_to_kafka
from support.readers import values

pytestmark = pytest.mark.long

STEP = """\
from own_code.deep.helper import more


def step(frame):
    def on_a_worker(batches):
        for batch in batches:
            yield more(batch)

    return frame.mapInArrow(on_a_worker, frame.schema)
"""
HELPER = """\
import pyarrow
from own_numbers import MORE


def more(batch):
    texts = [str(int(text) + MORE) for text in batch.column("value").to_pylist()]
    at = batch.schema.get_field_index("value")
    return batch.set_column(at, "value", pyarrow.array(texts))
"""


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]"])
def test_a_package_and_a_module_on_the_workers(kafka, make_topic, tmp_path, monkeypatch, master):
    """A function in a package is pickled by name, so its workers need package and helpers."""
    servers, source, target = kafka.bootstrap_servers, make_topic(kafka), make_topic(kafka)
    folder, elsewhere = tmp_path / "pipeline", tmp_path / "elsewhere"
    (folder / "own_code" / "deep").mkdir(parents=True)
    elsewhere.mkdir()
    (folder / "own_code" / "__init__.py").write_text("")
    (folder / "own_code" / "steps.py").write_text(STEP)
    (folder / "own_code" / "deep" / "helper.py").write_text(HELPER)
    (elsewhere / "other_numbers.py").write_text("MORE = 1000\n")
    # Spark follows links, and would send it under its other name.
    (folder / "own_numbers.py").symlink_to(elsewhere / "other_numbers.py")
    path = kafka_to_kafka(folder, servers, source, target)
    step = "  - view: more\n    python: own_code.steps:step\nsinks:"
    path.write_text(path.read_text().replace("sinks:", step))
    fill(servers, source, range(20))
    # A worker would find what lies where it was started.
    monkeypatch.chdir(elsewhere)
    code, told, err = finish(begin(path, "--available-now", "--master", master))
    assert code == 0, (err, told)
    assert sorted(map(int, values(servers, target))) == [1000 + 2 * n for n in range(20)]
