"""`python -m sparkbleach.cli` is `sparkbleach`."""

from . import main

main()
