"""Gymnasium environments, one after another or in processes."""
