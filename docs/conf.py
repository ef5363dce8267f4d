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


def setup(app):
    """Examples in a command's help are code, followed by what they do."""
    app.connect("sphinx-click-process-description", _examples)


def _examples(app, context, lines):
    for number, line in enumerate(lines):
        command, gap, what = line.removeprefix("| ").partition("  ")
        if line.startswith("| envbench"):
            lines[number] = f"| ``{command}``" + (f": {what.strip()}" if gap else "")
