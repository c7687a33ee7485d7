"""Runs the Python blocks of the README and of the documentation pages as tests."""

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

# Modules of the documentation need Sphinx, which the tests do without.
collect_ignore = ["docs/conf.py", "docs/extensions", "docs/gallery", "docs/_build"]

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser()],
    patterns=["README.md", "docs/*.md", "docs/**/*.md"],
    excludes=["docs/_build/**"],
).pytest()
