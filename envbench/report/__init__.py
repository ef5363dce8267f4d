"""Chosen results as documents: tables, Markdown, plots, HTML. Pure, except ``output_files``."""
