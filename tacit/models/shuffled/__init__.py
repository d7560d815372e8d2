"""Model ``shuffled``: one server shuffles sealed messages of all devices, and another one opens and counts them."""
