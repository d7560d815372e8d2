"""A service's HTTP server: connections and turns, the lean reader, problem documents, who may call."""
