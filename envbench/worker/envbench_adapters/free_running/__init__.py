"""Processes that step freely, bound to cores, counted over one shared window."""
