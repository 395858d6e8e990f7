"""`python -m twophase` is the command line."""

from twophase.cli.main import main

main()
