"""`python -m momentalign`, the same as the command `momentalign`."""

from momentalign.cli import main

main()
