"""What the faces of all models have in common: device, server and collector side, results, watched events."""
