"""Sphinx builds the documentation as a site: ``sphinx-build docs build/site``."""

import envbench

project = "envbench: RL environment throughput"
author = "the envbench authors"
version = release = envbench.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_click"]
exclude_patterns = ["notebook.ipynb"]
myst_heading_anchors = 4
# links to files of the repository beside the docs; JSON with an ellipsis
suppress_warnings = ["myst.xref_missing", "misc.highlighting_failure"]
autodoc_typehints = "signature"
html_theme = "furo"
html_title = project
html_show_copyright = False
smartquotes = False
