"""Kustomize documents: a base, and an overlay for each organisation, with its own services alone."""
