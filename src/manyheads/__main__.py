"""`python -m manyheads` is the command `manyheads`."""

from manyheads.cli.main import main

main()
