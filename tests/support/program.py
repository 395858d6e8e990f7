"""A program of the tests that is started again and again, with arguments as JSON."""

import json
import subprocess
import sys


class Program:
    """One script; what it is told each time, and what it is told now."""

    def __init__(self, script, arguments):
        self.script, self.arguments = script, arguments

    def start(self, **more):
        """Start it; what it says is read from its output, errors among it."""
        return subprocess.Popen(
            [sys.executable, str(self.script), json.dumps(self.arguments | more)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, **more):
        """Run it to its end; return its code and what it said."""
        with self.start(**more) as process:
            said, _ = process.communicate(timeout=120)
        return process.returncode, said
