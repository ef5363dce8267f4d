"""One HTML file that needs no network: tables that sort, plots, and the details of every cell."""
