"""State of watched events on the device, for models in which a reader of the state learns nothing
(``docs/pan-privacy.md``).

``state_files`` names the files; ``slots`` is a file of constant size that survives crashes; ``watch`` is one event's
state over the steps of its recipe; ``recipes`` says what a recipe has a device keep, and how an answer is made of it;
``watches`` holds everything that one device keeps, and loads the others once it watches something; ``listening`` drives
the states by the clock and takes events from applications.
"""
