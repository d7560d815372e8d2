"""Prio3 of draft-irtf-cfrg-vdaf (wire version 18): pure Python, the exact path and the oracle of faster ones."""
