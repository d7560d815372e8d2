"""Succinct histograms in the local model: frequent items of a large domain, from reports of a few bits."""
