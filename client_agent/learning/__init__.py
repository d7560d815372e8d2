"""Training on a device: model files, learners and one update for each round."""
