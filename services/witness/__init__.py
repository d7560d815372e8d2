"""The witness: cosigns the checkpoints of logs whose entries it has read."""
