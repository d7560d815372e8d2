"""An intruder on devices that watch an event: it sees everything in storage and memory, and has to say on which devices
the event happened (``docs/pan-privacy.md``).

``traces`` simulates devices and records what can be seen of them, ``attackers`` guess, and ``game`` says how much
better than a coin they do. Tests have state keepers with one mistake each, which the intruder must find.
"""
