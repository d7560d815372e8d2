"""How a device draws what it sends: one module per family of methods.

``registry`` finds them by the names of their methods; aggregators and collectors import none of them.
"""
