"""Who is below whom: real processes, found and no longer found."""

import subprocess
import sys
from contextlib import suppress

from twophase.verify.processes import descendants, executors_below

# A shell that stays, with one child that looks like an executor and one that does not. Each says
# that it runs: until then the system may show it without a command.
TREE = """
import subprocess, sys
wait = "import sys; print(flush=True); sys.stdin.read()"
names = ["org.apache.spark.executor.CoarseGrainedExecutorBackend", "somebody"]
commands = [[sys.executable, "-c", wait, name] for name in names]
children = [subprocess.Popen(command, stdout=subprocess.PIPE) for command in commands]
for child in children:
    child.stdout.readline()
print(*[child.pid for child in children], flush=True)
sys.stdin.read()
"""


def test_descendants_and_executors():
    """A grandchild is found; an executor is known by its command; the dead are not found."""
    middle = [
        sys.executable,
        "-c",
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {TREE!r}])",
    ]
    with subprocess.Popen(middle, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as top:
        executor, other = map(int, top.stdout.readline().split())
        found = [process.pid for process in descendants(top.pid)]
        assert found[-2:] in ([executor, other], [other, executor])
        assert len(found) == 3
        assert [process.pid for process in executors_below(top.pid)] == [executor]
        with suppress(BrokenPipeError):
            top.stdin.close()
        assert top.wait(30) == 0
    assert descendants(top.pid) == []
