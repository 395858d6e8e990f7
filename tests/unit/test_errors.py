"""The error tree: codes, texts, pickling, documentation."""

import pickle
import re
from pathlib import Path

import pytest

from twophase import errors
from twophase.errors import Fenced, TwoPhaseError

DOCS = Path(__file__).parents[2] / "docs" / "errors.md"


def tree(root=TwoPhaseError):
    """Every class below the base."""
    return [kind for child in root.__subclasses__() for kind in (child, *tree(child))]


def in_package():
    return [kind for kind in tree() if kind.__module__ == errors.__name__]


def test_every_code_is_unique_and_documented():
    """Each error class has a code of its own and exactly one entry in docs/errors.md."""
    codes = [kind.code for kind in in_package()]
    assert len(set(codes)) == len(codes)
    assert sorted(re.findall(r"^## (\w+)$", DOCS.read_text(), re.MULTILINE)) == sorted(codes)


def test_every_class_is_drawn_in_the_docstring():
    """The tree in the module's docstring names every class, below its parent."""
    drawn = {}
    path = []
    for indent, name in re.findall(r"^( *)(\w+) {2,}\S", errors.__doc__, re.MULTILINE):
        del path[len(indent) // 2 :]
        drawn[name] = path[-1] if path else None
        path.append(name)
    assert drawn == {
        kind.__name__: kind.__bases__[0].__name__ if kind is not TwoPhaseError else None
        for kind in (TwoPhaseError, *in_package())
    }


@pytest.mark.parametrize("kind", in_package())
def test_an_error_survives_pickling(kind):
    """An executor's error reaches the driver with its class, text and ids."""
    error = kind("what happened", transactional_id="orders", epoch=3)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error)
    assert copy.ids == {"transactional_id": "orders", "epoch": 3}


def test_the_text_begins_with_the_code_and_ends_with_the_ids():
    """Spark hands on only the text, so it holds everything; an id of None is left out."""
    error = Fenced("a newer owner exists", transactional_id="orders", epoch=3, batch=None)
    assert str(error) == ("TWOPHASE_FENCED: a newer owner exists [transactional_id=orders epoch=3]")
