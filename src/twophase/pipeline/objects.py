"""The user's own code by the name `module:name`, also from the folder of the pipeline's file."""

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from twophase.options import nearest


class NotFound(ValueError):
    """The name leads to nothing; the message says why."""


class Objects:
    """Imports what a file names, also from its folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def modules(self) -> tuple[Path, ...]:
        """What is imported by now and lies beside the file: modules, and folders of packages.

        Executors need all of it, also what a module of the user's has imported itself.
        """
        here = os.path.realpath(self._folder)
        tops = [sys.modules[name] for name in list(sys.modules) if _is_top(name)]
        places = (place for module in tops for place in _places(module))
        # Right beside it only: what lies deeper, as in .venv, belongs to something else. The module
        # itself may be a link to elsewhere.
        return tuple(dict.fromkeys(p for p in places if os.path.realpath(p.parent) == here))

    def find(self, name: str) -> Any:
        """Return the object of that name, or raise `NotFound`."""
        module_name, _, attribute = name.partition(":")
        place = str(self._folder)
        if place not in sys.path:
            sys.path.insert(0, place)
        try:
            module = importlib.import_module(module_name)
        except (Exception, SystemExit) as error:
            said = f"{type(error).__name__}: {error}"
            raise NotFound(
                f"{module_name} cannot be imported ({said}); it was looked for in {place} and "
                "where Python looks"
            ) from error
        if not hasattr(module, attribute):
            public = [each for each in vars(module) if not each.startswith("_")]
            guess = nearest(attribute, public)
            hint = f"; did you mean {guess}?" if guess else f"; it has {', '.join(public)[:200]}"
            raise NotFound(f"{module_name} has no {attribute}{hint}")
        return getattr(module, attribute)


def _is_top(name: str) -> bool:
    # Executors have this package, and a main program of their own.
    return "." not in name and name not in {"__main__", "twophase"}


def _places(module: Any) -> Iterator[Path]:
    """Return the folders of a package, of which one without __init__.py may have many, or a file.

    By the module's own dictionary: some make things up, or import, when asked for an attribute.
    """
    known = getattr(module, "__dict__", {})
    paths = known.get("__path__")
    if paths is None:
        paths = [known.get("__file__")]
    for path in paths:
        if isinstance(path, str):
            yield Path(path)
