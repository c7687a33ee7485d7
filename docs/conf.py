"""Sphinx configuration: Markdown pages through MyST, the API from docstrings."""

import momentalign

project = "momentalign"
author = "The momentalign developers"
copyright = author
version = release = momentalign.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"momentalign {release}"

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "description"
# Arguments that a docstring leaves out are not listed by their types alone.
autodoc_typehints_description_target = "documented"
napoleon_numpy_docstring = False
# Docstrings use single backquotes for code.
default_role = "code"
