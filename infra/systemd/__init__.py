"""Units for systemd, for those who run neither containers nor Kubernetes."""
