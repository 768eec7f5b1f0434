"""``python -m infrarsi`` is the command ``infrarsi``."""

from infrarsi.cli import main

main()
