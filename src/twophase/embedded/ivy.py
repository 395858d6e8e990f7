"""One run of Apache Ivy: a list of jars in, files in a folder out."""

import importlib.util
import os
import re
import selectors
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from twophase.embedded.cache import disk_full
from twophase.embedded.jarset import JarSet
from twophase.errors import SetupError

SETTINGS_VARIABLE = "TWOPHASE_IVY_SETTINGS"
# Ivy's own public repository, but without one request per jar for its pom and one for its
# checksum: the list is complete and every SHA-256 sum is checked afterwards (6 s instead of 42).
_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="public"/>
  <property name="ivy.checksums" value=""/>
  <resolvers><ibiblio name="public" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""
_SILENCE_LIMIT_S = 60.0
_TOTAL_LIMIT_S = 1800.0
_FETCHED = "[SUCCESSFUL ]"
_REASON = re.compile(r"\((java[\w.]*(?:Exception|Error): [^()\n]*)\)|(Host \S+ not found)")
_NO_SPACE = ("No space left on device", "Disk quota exceeded", "File too large")


def retrieve(java: Path, jar_set: JarSet, folder: Path, on_jar: Callable[[], None]) -> None:
    """Download every jar of the set into the folder, or raise one SetupError that says why not."""
    (folder / "ivy.xml").write_text(jar_set.ivy_module(), encoding="utf-8")
    (folder / "settings.xml").write_text(_SETTINGS, encoding="utf-8")
    command: list[str | Path] = [
        *(java, f"-Divy.default.ivy.user.dir={folder / 'ivy'}", "-jar", _ivy_jar()),
        *("-settings", _settings_file(folder), "-cache", folder / "ivy" / "cache"),
        *("-ivy", folder / "ivy.xml", "-confs", "default", "-types", "jar", "bundle"),
        *("-retrieve", f"{folder}/[artifact]-[revision](-[classifier]).[ext]"),
    ]
    output, finished = _run(command, on_jar)
    if any(sign in output for sign in _NO_SPACE):
        raise disk_full(folder.parent)
    if not finished:
        raise _unreachable(jar_set, output)


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    places = spec.submodule_search_locations if spec else None
    jars = [jar for place in places or () for jar in Path(place).glob("jars/ivy-*.jar")]
    if not jars:
        raise SetupError(
            "Apache Ivy was not found, because pyspark is not installed with its jars here; "
            "run: pip install 'twophase[spark]'"
        )
    return max(jars)


def _settings_file(folder: Path) -> Path:
    chosen = os.environ.get(SETTINGS_VARIABLE)
    if not chosen:
        return folder / "settings.xml"
    if not Path(chosen).is_file():
        raise SetupError(
            f"{SETTINGS_VARIABLE} names {chosen}, which is no file; correct or unset it"
        )
    return Path(chosen)


def _run(command: list[str | Path], on_jar: Callable[[], None]) -> tuple[str, bool]:
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    with process:
        try:
            output, ended = _read(process.stdout, on_jar) if process.stdout else ("", False)
            return output, ended and process.wait(_SILENCE_LIMIT_S) == 0
        finally:
            process.kill()


def _read(pipe: IO[bytes], on_jar: Callable[[], None]) -> tuple[str, bool]:
    output, seen = "", 0
    deadline = time.monotonic() + _TOTAL_LIMIT_S
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        # A server that takes the connection and then says nothing must not hold us for ever.
        while time.monotonic() < deadline and selector.select(_SILENCE_LIMIT_S):
            chunk = os.read(pipe.fileno(), 65536)
            if not chunk:
                return output, True
            output += chunk.decode(errors="replace")
            for _ in range(seen, fetched := output.count(_FETCHED)):
                on_jar()
            seen = fetched
    return output + "\n(java.net.SocketTimeoutException: no answer)", False


def _unreachable(jar_set: JarSet, output: str) -> SetupError:
    match = _REASON.search(output)
    reason = (match[1] or match[2]) if match else "Ivy could not get every jar"
    return SetupError(
        f"the jars of {jar_set.name} could not be downloaded: {reason}; connect this machine to "
        f"the network (a proxy goes into JAVA_TOOL_OPTIONS), or set {SETTINGS_VARIABLE} to an "
        "ivysettings file that names a mirror you can reach"
    )
