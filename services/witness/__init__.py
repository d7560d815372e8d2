"""The witness: cosigns the checkpoints of logs that it has read."""
