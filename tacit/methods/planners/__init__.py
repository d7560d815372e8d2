"""How an analyst chooses the parameters of a method for what is to be hidden: one module per family of methods.

``registry`` finds them by the names of their methods; only what writes recipes and compares ways to ask imports them.
"""
