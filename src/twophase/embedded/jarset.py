"""The committed lists of jars: which there are, and what each file must hash to."""

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from xml.sax.saxutils import quoteattr

from twophase.errors import ProtocolViolation

_LINE = re.compile(
    r"(?P<group>[\w.-]+):(?P<artifact>[\w.-]+):(?P<version>[\w.-]+)(:(?P<classifier>[\w.-]+))?"
    r" (?P<sha256>[0-9a-f]{64})"
)


@dataclass(frozen=True)
class Jar:
    """One file of a jar set: its coordinates and the only content it may have."""

    group: str
    artifact: str
    version: str
    classifier: str | None
    sha256: str

    @property
    def file_name(self) -> str:
        """The name that Ivy's retrieve pattern gives the file."""
        tail = f"-{self.classifier}" if self.classifier else ""
        return f"{self.artifact}-{self.version}{tail}.jar"

    def intact_in(self, folder: Path) -> bool:
        """Tell whether the folder holds exactly this jar."""
        try:
            with (folder / self.file_name).open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == self.sha256
        except FileNotFoundError:
            return False


@dataclass(frozen=True)
class JarSet:
    """A named list of jars that are used together."""

    name: str
    jars: tuple[Jar, ...]

    @classmethod
    def parse(cls, name: str, text: str) -> "JarSet":
        """Read `group:artifact:version[:classifier] sha256` lines; refuse anything else."""
        jars = []
        for line in text.splitlines():
            match = _LINE.fullmatch(line)
            if match is None:
                raise ProtocolViolation(f"the jar list {name} has a line that is no jar: {line!r}")
            jars.append(Jar(**match.groupdict()))
        if len({jar.file_name for jar in jars}) != len(jars):
            raise ProtocolViolation(f"two jars of the list {name} have the same file name")
        return cls(name, tuple(jars))

    def missing_from(self, folder: Path) -> "JarSet":
        """Return the part of this set that the folder lacks or holds with other content."""
        return JarSet(self.name, tuple(j for j in self.jars if not j.intact_in(folder)))

    def ivy_module(self) -> str:
        """Return an ivy.xml that asks for exactly these files: nothing is resolved further."""
        return "\n".join(
            [
                '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">',
                f'  <info organisation="twophase" module={quoteattr(self.name)}/>',
                '  <configurations><conf name="default"/></configurations>',
                "  <dependencies>",
                *(_dependency(jar) for jar in self.jars),
                "  </dependencies>",
                "</ivy-module>",
            ]
        )


@cache
def load(name: str) -> JarSet:
    """Return the committed jar set of that name."""
    text = (resources.files(__package__) / "jars" / f"{name}.txt").read_text("utf-8")
    return JarSet.parse(name, text)


def _dependency(jar: Jar) -> str:
    open_tag = (
        f"    <dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)}"
        f' rev={quoteattr(jar.version)} transitive="false" conf="default->default"'
    )
    if jar.classifier is None:
        return open_tag + "/>"
    return (
        f'{open_tag}><artifact name={quoteattr(jar.artifact)} type="jar" ext="jar"'
        f" m:classifier={quoteattr(jar.classifier)}/></dependency>"
    )
