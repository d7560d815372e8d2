"""What a monitor checks who reads a whole log (P29): nothing of a device, and nothing that is not public."""
