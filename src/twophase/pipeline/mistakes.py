"""Every mistake of a file at once, each with its place."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from twophase.errors import ConfigurationError, TwoPhaseError

# Where a value lies in the file: names of keys, and numbers in lists.
Where = tuple[str | int, ...]

_MISTAKES_MAX: Final = 100


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Line and column, from 1, as editors count them."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, order=True)
class Mistake:
    """One thing that is wrong, where, and what is allowed."""

    place: Place
    said: str


class PipelineWrong(ConfigurationError):
    """The file cannot be run as it is: all that is wrong with it, a line for each.

    `more` is how many mistakes there are beside these.
    """

    def __init__(self, file: str, mistakes: Sequence[Mistake], more: int = 0) -> None:
        self.file, self.mistakes, self.more = file, tuple(mistakes), more
        super().__init__("\n".join(self.lines))

    @property
    def lines(self) -> list[str]:
        """Return file:line:column and the sentence, for each, and how many are not shown."""
        lines = [
            f"{self.file}:{each.place.line}:{each.place.column}: {each.said}"
            for each in self.mistakes
        ]
        if self.more:
            lines.append(f"{self.file}: and {self.more} more mistakes, which are not shown")
        return lines

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[type, tuple[str, tuple[Mistake, ...], int]]:
        return type(self), (self.file, self.mistakes, self.more)


@dataclass(slots=True)
class Mistakes:
    """Gathers mistakes by where they lie, until somebody asks whether there are any.

    `hide` takes secrets out of a sentence: of an option's value, say, that was wrong.
    """

    file: str
    places: dict[Where, Place] = field(default_factory=dict)
    found: list[Mistake] = field(default_factory=list)
    hide: Callable[[str], str] = str

    def add(self, where: Where, said: str) -> None:
        """Take note of a mistake; of a key that is not there, the place is that of its section."""
        self.add_at(self.place(where), said)

    def add_at(self, place: Place, said: str) -> None:
        """Take note of a mistake at a place."""
        mistake = Mistake(place, self.hide(said))
        if mistake not in self.found:
            self.found.append(mistake)

    def place(self, where: Where) -> Place:
        """Return where a value lies, or the nearest that it is in."""
        for length in range(len(where), 0, -1):
            if where[:length] in self.places:
                return self.places[where[:length]]
        return self.places.get((), Place(1, 1))

    def check(self) -> None:
        """Raise what was found, in the order of the file, and say how much more there is."""
        if self.found:
            more = max(0, len(self.found) - _MISTAKES_MAX)
            raise PipelineWrong(self.file, sorted(self.found)[:_MISTAKES_MAX], more)


def said_of(error: TwoPhaseError) -> str:
    """Return an error's sentence without the code and the ids, which mean nothing in a file."""
    return error.message
