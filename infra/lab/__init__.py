"""The laboratory: simulated devices, demonstration, measurements, test vectors; the product does not import it."""
