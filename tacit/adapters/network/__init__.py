"""HTTP and TLS: connections out, contexts, and which URLs are allowed."""
