"""What executors get of the user's own code: all that the names in the file have led to."""

import os
import subprocess
import sys
from zipfile import ZipFile

import pytest
from unit.pipeline.files import changed, load

from twophase.pipeline.packing import pack

STEP = "def step(frame):\n    return frame\n"


def with_step(name):
    return changed(
        "    sql: |\n      SELECT key, value\n      FROM source\n", f"    python: {name}\n"
    )


def written(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        # As an image has it that is built the same each time.
        os.utime(path, (0, 0))


def found_elsewhere(folder, modules, name):
    """Import what was sent, and it only, in another process and folder."""
    there = folder / "there"
    there.mkdir()
    sent = [pack(each, there) if each.is_dir() else each for each in modules]
    # Single files land in one folder, as Spark has it.
    for each in sent:
        if each.parent != there:
            (there / each.name).write_bytes(each.read_bytes())
    path = [str(there), *(str(each) for each in sent if each.suffix == ".zip")]
    module, _, attribute = name.partition(":")
    code = f"import sys; sys.path += {path}; import importlib\n"
    code += f"print(importlib.import_module({module!r}).{attribute}.__name__)"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or done.stderr


@pytest.mark.parametrize(
    ("name", "files", "sent"),
    [
        ("mods_a1:step", {"mods_a1.py": "import mods_a2\n" + STEP, "mods_a2.py": ""}, 2),
        (
            "mods_b:step",
            {"mods_b/__init__.py": "from mods_b.x import step", "mods_b/x.py": STEP},
            1,
        ),
        ("mods_c.x.y:step", {"mods_c/__init__.py": "", "mods_c/x/y.py": STEP}, 1),
        ("mods_d.x:step", {"mods_d/x.py": "import mods_d_too\n" + STEP, "mods_d_too.py": ""}, 2),
        ("mods_e.x.y:step", {"mods_e/x/y.py": STEP}, 1),
    ],
)
def test_what_is_sent_can_be_imported_elsewhere(tmp_path, name, files, sent):
    """Helpers of a module, packages, packages without __init__.py; and it is no more than that."""
    folder = tmp_path / "pipeline"
    written(folder, {**files, "mods_not_imported.py": ""})
    found = load(folder, with_step(name))
    assert len(found.modules) == sent
    assert found_elsewhere(tmp_path, found.modules, name) == "step"


def test_what_is_not_sent(tmp_path, monkeypatch):
    """Libraries in a folder below, and what no import needs."""
    written(tmp_path, {"libs/mods_f_lib.py": "", "mods_f/x.py": "import mods_f_lib\n" + STEP})
    written(tmp_path, {"mods_f/.git/config": "", "mods_f/__pycache__/old.pyc": ""})
    monkeypatch.syspath_prepend(str(tmp_path / "libs"))
    found = load(tmp_path, with_step("mods_f.x:step"))
    assert found.modules == (tmp_path / "mods_f",)
    assert ZipFile(pack(tmp_path / "mods_f", tmp_path)).namelist() == ["mods_f/", "mods_f/x.py"]


def test_a_link_to_a_module_elsewhere(tmp_path):
    """It lies beside the file all the same, also where the folder itself has two names."""
    written(tmp_path, {"real/mods_g_real.py": STEP, "folder/x": ""})
    (tmp_path / "folder" / "mods_g.py").symlink_to(tmp_path / "real" / "mods_g_real.py")
    (tmp_path / "alias").symlink_to(tmp_path / "folder")
    found = load(tmp_path / "alias", with_step("mods_g:step"))
    assert [each.name for each in found.modules] == ["mods_g.py"]
