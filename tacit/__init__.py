"""Tacit: private federated analytics.

The shared library of all deployables: wire formats, cryptography, privacy accounting and the pure protocol roles. Only
this package is meant to be imported from outside; it imports nothing from the packages above it.

Pinned drafts: DAP-18 (domain tag "dap-18"), VDAF wire version 18, RFC 9180, RFC 9292, RFC 9458, RFC 9474, RFC 9577, RFC
9578, RFC 6962 with C2SP tlog-tiles.
"""

__version__ = "0.1.0"
