"""`python -m momentalign`, where the command is not on the path."""

from momentalign.cli import main

main()
