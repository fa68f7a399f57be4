"""Builds the guide: `make docs` writes it to build/docs."""

from __future__ import annotations

import sys
from pathlib import Path

import moorage

sys.path.insert(0, str(Path(__file__).parent))

project = "moorage"
author = "the developers of moorage"
copyright = author
release = version = moorage.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_click",
    "reference_directives",
]
html_theme = "furo"
html_title = f"moorage {release}"
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["pages.css"]

# Headings are link targets, as on the pages of a code host.
myst_heading_anchors = 3
myst_enable_extensions = ["attrs_inline"]  # classes of pictures
autosummary_generate = False
autodoc_typehints = "signature"  # docstrings say what types do not
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
# Words in the types of parameters, such as `nodes` in "(nodes,) int32 array", are no references.
suppress_warnings = ["ref.python"]
nitpicky = False
