"""How a collector estimates from the sum of randomised answers: one module per family of methods.

``registry`` finds them by the names of their methods; devices and aggregators import none of them.
"""
