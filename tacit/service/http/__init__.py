"""A service's HTTP server: connections and turns, the fast reader, problem documents, who may call."""
