"""What the interfaces of all models have in common: device, server and collector side, results, watched events."""
