"""Chosen results to documents: tables, Markdown, plots, one HTML page. All pure but ``disk``."""
