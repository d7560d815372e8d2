"""Measures what Tacit costs on this machine, beside the floor set by the machine's own primitives.

``kernels`` and ``stages`` time code in this process; ``ingest`` and ``pipeline`` run the services as real processes and
know them only by their HTTP interfaces, the layout on disk and their process ids. Every figure is CPU time unless its
stage is called latency or memory.
"""
