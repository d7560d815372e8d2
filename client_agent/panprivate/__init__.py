"""State of watched events on the device, for models in which who reads it learns nothing (``docs/pan-privacy.md``).

``slots`` is a file of constant size that a crash leaves whole, ``watch`` one event's state over the steps of its
recipe, ``keeper`` the process that holds several of them, and ``config`` what it is told.
"""
