"""A question without anybody who could answer it."""

import subprocess
import sys


def test_a_closed_stdin_is_no_terminal():
    """Nothing is changed, in one sentence."""
    code = (
        "import sys; assert sys.stdin is None; from twophase.cli.asking import confirm; "
        "from click import ClickException\n"
        "try: confirm(['to do'], yes=False)\n"
        "except ClickException as error: print(error.message)"
    )
    closed = ["sh", "-c", 'exec "$@" <&-', "sh"]
    done = subprocess.run(
        [*closed, sys.executable, "-c", code], capture_output=True, check=False, text=True
    )
    assert (done.returncode, done.stderr) == (0, "to do\n")
    assert done.stdout == (
        "nothing was changed: there is no terminal to ask at; give --yes to go on without\n"
    )
