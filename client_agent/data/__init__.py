"""The data of a device: where it lies, how it is read, and whom a recipe asks."""
