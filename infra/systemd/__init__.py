"""Units for systemd, for operators who use neither containers nor Kubernetes."""
