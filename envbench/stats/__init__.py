"""Pure mathematics: rates of runs, intervals of rates and ratios, alternating blocks. No files, no
clock."""
