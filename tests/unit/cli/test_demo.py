"""`twophase demo` and its report: what is refused before the work."""

import pytest

from twophase.cli.main import run
from twophase.cli.report_file import check_writable


@pytest.mark.parametrize("command", [["demo"], ["verify", "--bootstrap-server", "127.0.0.1:1"]])
@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/no/such/folder/r.html", "/no/such/folder is no folder; make it first"),
        ("/proc/r.html", "--report /proc/r.html cannot be written: "),
        ("/proc/version", "--report /proc/version cannot be written: "),
    ],
)
def test_a_report_that_cannot_be_written(command, path, said, capsys, tmp_path, monkeypatch):
    """In one sentence, before anything has begun."""
    monkeypatch.setenv("TWOPHASE_HOME", str(tmp_path))
    assert run([*command, "--report", path]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_left_as_it_was(tmp_path):
    """Whether it was there, or not, or a link to what is not there."""
    there, missing, link = (tmp_path / name for name in ("there", "missing", "link"))
    there.write_text("an earlier report")
    link.symlink_to(missing)
    for path in (there, missing, link):
        check_writable(path)
    assert there.read_text() == "an earlier report"
    assert link.is_symlink()
    assert not missing.exists()
