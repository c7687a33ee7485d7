"""Sphinx configuration: Markdown pages through MyST, the API from docstrings, commands from the command line."""

import logging
import os
import sys
import warnings
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

import momentalign

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "momentalign"
author = "The momentalign developers"
copyright = author
version = release = momentalign.__version__

extensions = [
    "commands",
    "docstrings",
    "figures",
    "line_breaks",
    "mathml",
    "offline",
    "packages",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_title = f"momentalign {release}"

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
# Blocks of code that name no language are commands.
highlight_language = "sh"

# Links into the pages of other projects need the network, so only hosted builds ask for them.
if os.environ.get("MOMENTALIGN_INTERSPHINX"):
    extensions.append("sphinx.ext.intersphinx")
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", None),
    "numpy": ("https://numpy.org/doc/stable", None),
    "torch": ("https://docs.pytorch.org/docs/stable", None),
    "sklearn": ("https://scikit-learn.org/stable", None),
    "pandas": ("https://pandas.pydata.org/docs", None),
}

autodoc_member_order = "bysource"
autodoc_typehints = "description"
# Arguments that a docstring leaves out are not listed by their types alone.
autodoc_typehints_description_target = "documented"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
# Docstrings use single backquotes for code; names that are documented become links.
default_role = "py:obj"
toc_object_entries_show_parents = "hide"

# The scripts of examples/ are run when the pages are built. What one library advises another is not their output.
warnings.filterwarnings("ignore", module=r"lightning\.")
for name in ("onnx_ir", "onnxscript"):
    logging.getLogger(name).setLevel(logging.WARNING)
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "ExampleTitleSortKey",
    "image_scrapers": ("figures",),
    "reset_modules": (),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def setup(app: Sphinx) -> None:
    app.connect("html-page-context", _leave_out_navigation, priority=400)


def _leave_out_navigation(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Source pages are many, and the theme's navigation takes longer than the rest of such a page."""
    if page.startswith("_modules/"):
        context["toctree"] = lambda **options: ""
