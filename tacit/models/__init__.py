"""Models: who takes part in answering a question, whom a device has to trust, and how an answer travels.

``tacit.models.forms`` is what every reader of a recipe needs to know about a model: its parties, the adversaries of its
claim and how each epsilon is computed. The modules beside it are what devices and collectors need.
"""
