"""An intruder on devices that watch an event, who is given everything that storage and memory show and has to say on
which devices the event happened (``docs/pan-privacy.md``).

``traces`` makes devices and notes what can be seen of them, ``leaks`` are keepers of state with a mistake each, which
the intruder must find, ``attackers`` guess, and ``game`` says how much better than a coin.
"""
