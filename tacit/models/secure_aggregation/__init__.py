"""Model ``secure-aggregation``: two aggregators sum secret shares (DAP, Prio3)."""
