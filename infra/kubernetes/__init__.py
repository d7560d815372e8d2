"""Kustomize documents: a base, and for each organisation an overlay with only its own services."""
