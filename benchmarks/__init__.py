"""Studies that produce the numbers of the documentation; not part of the wheel. Run from the repository's root."""
