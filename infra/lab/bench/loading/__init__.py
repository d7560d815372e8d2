"""Load for benchmarks: prepared contributions, real servers, and what processes and databases used."""
