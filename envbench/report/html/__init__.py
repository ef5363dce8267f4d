"""One HTML file that needs no network: tables that sort, plots, and every cell opened."""
