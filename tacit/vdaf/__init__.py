"""Prio3 of draft-irtf-cfrg-vdaf (wire version 18): pure Python, the exact implementation and the oracle for faster
ones."""
