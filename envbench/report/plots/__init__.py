"""FPS by number of environments, drawn."""
