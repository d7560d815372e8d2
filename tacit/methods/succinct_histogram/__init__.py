"""The algorithms of the succinct-histograms paper, as it states them."""
