"""State of watched events on the device, for models in which who reads it learns nothing (``docs/pan-privacy.md``).

``slots`` is a file of constant size that a crash leaves whole, ``watch`` one event's state over the steps of its
recipe, ``recipes`` what a recipe has a device keep and what an answer is made of, ``watches`` all that one device
keeps, and ``listening`` the process that drives it by the clock and takes events from applications.
"""
