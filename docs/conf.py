"""Builds the guide: `make docs` writes it to build/docs."""

from __future__ import annotations

import shutil
from pathlib import Path

from sphinx.application import Sphinx

import moorage

project = "moorage"
author = "the developers of moorage"
copyright = author
release = version = moorage.__version__

extensions = ["myst_parser"]
html_theme = "furo"
html_title = f"moorage {release}"
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["pages.css"]

# Headings are link targets, as on the pages of a code host.
myst_heading_anchors = 4
nitpicky = False


def setup(app: Sphinx) -> None:
    """Copy the pictures, which pages name in HTML, so that Sphinx does not see them."""
    shutil.copytree(Path(app.srcdir) / "pictures", Path(app.outdir) / "pictures", dirs_exist_ok=True)
