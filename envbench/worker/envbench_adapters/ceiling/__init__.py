"""The engine alone on every core: what the hardware allows."""
