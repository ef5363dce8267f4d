"""One job in, one supervised process, one validated reply out.

``execute`` runs a job and returns its reply. ``supervisor`` watches the process, ``guarded`` and
``guardian`` see that nothing outlives it, and ``memory_kills`` tells when the kernel ended it.
"""
