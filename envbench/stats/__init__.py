"""Pure mathematics: rates, intervals and decision rules. No files, no clock, nothing printed."""
