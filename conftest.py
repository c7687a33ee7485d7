"""Runs the Python blocks of the README and of the documentation pages as tests."""

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

# A Sphinx configuration is no module to look for doctests in, and one without them is not worth Lightning's import.
collect_ignore = ["docs/conf.py", "docs/_build", "src/momentalign/lightning.py"]

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), SkipParser()],
    patterns=["README.md", "docs/*.md", "docs/**/*.md"],
    excludes=["docs/_build/**"],
).pytest()
