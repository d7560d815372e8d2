"""The checks of a monitor that reads a whole log (P29). It uses public data only, and nothing about devices."""
