"""What a running stack costs over a long run: memory, processor time for each contribution, and the databases' size."""
