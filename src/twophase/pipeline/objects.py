"""The user's own code by the name `module:name`, also from the folder of the pipeline's file."""

import importlib
import sys
from pathlib import Path
from typing import Any

from twophase.options import nearest


class NotFound(ValueError):
    """The name leads to nothing; the message says why."""


class Objects:
    """Imports what a file names; `modules` are the files beside it, which executors need too."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.modules: list[Path] = []

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
        path = Path(getattr(module, "__file__", None) or "")
        if path.parent == self._folder and path not in self.modules:
            self.modules.append(path)
        if not hasattr(module, attribute):
            public = [each for each in vars(module) if not each.startswith("_")]
            guess = nearest(attribute, public)
            hint = f"; did you mean {guess}?" if guess else f"; it has {', '.join(public)[:200]}"
            raise NotFound(f"{module_name} has no {attribute}{hint}")
        return getattr(module, attribute)
