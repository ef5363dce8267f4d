"""Chosen results as documents: tables, Markdown, plots, HTML. Pure, except ``document_files``."""
