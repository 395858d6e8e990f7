"""Fetch every jar that the tests use, so that no test waits for a download."""

import sys

from twophase.embedded.fetch import fetch_jars
from twophase.embedded.java import find_java
from twophase.errors import SetupError


def main() -> None:
    """Fetch what is not there yet; a failure is one sentence."""
    try:
        find_java()
        for name in ("kafka-4.3.1", "kafka-3.9.2", "spark-kafka-4.2.0"):
            fetch_jars(name)
    except SetupError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
