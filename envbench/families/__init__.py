"""Env families, as data: default task, titles, frames per step, reference settings, equality."""
