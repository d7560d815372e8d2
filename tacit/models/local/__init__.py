"""Model ``local``: single reports that hide their answers by themselves, read by one server."""
