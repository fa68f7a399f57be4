"""Builds the guide: `make docs` writes it to build/docs."""

from __future__ import annotations

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
myst_heading_anchors = 3
myst_enable_extensions = ["attrs_inline"]  # classes of pictures
nitpicky = False
