"""End a worker and all that it started, whatever dies first.

``guardian`` runs beside a worker and ends its processes. ``guarded_worker`` starts it, and ends
what a killed guardian leaves. ``leftovers`` removes what a killed envbench leaves.
"""
