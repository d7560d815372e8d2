"""The whole system under a simulated clock, for tests: every service mounted without sockets, faults on every leg."""
