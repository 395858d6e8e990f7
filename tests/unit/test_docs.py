"""What the documents and docstrings point to is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXTS = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "src/**/*.py", "bench/*.py")
    for path in ROOT.glob(pattern)
)
REGISTRIES = re.compile(r"pypi\.org|pythonhosted|repo1?\.maven|maven\.org|crates\.io|npmjs")


def names(text):
    """Return the files of this repository that a text names."""
    return set(re.findall(r"\b(?:tests|docs|bench|tools|src)/[\w/.-]+\.(?:py|md)\b", text))


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_that_is_named_exists(path):
    """A claim that names its test names one that is there."""
    assert [name for name in names(path.read_text()) if not (ROOT / name).exists()] == []


def test_links_lead_somewhere():
    """Every relative link of the documents has a target."""
    for path in TEXTS:
        if path.suffix == ".md":
            for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", path.read_text()):
                assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_no_file_names_a_package_registry():
    """A mirror is the user's to choose: no file holds a registry's host."""
    files = [
        path
        for pattern in ("*", "docs/*", "requirements/*", "src/**/*", "tools/*", "bench/*", ".ci/*")
        for path in ROOT.glob(pattern)
        if "__pycache__" not in path.parts and path.is_file()
    ]
    assert len(files) > 50
    found = [path for path in files if REGISTRIES.search(path.read_text(errors="replace"))]
    assert found == []
