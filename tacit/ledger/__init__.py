"""The budget ledger: what the recipes of one log cost a population together, per account and period (P21, P22).

Values and pure functions only. What a log's leaves charge is read in ``tacit.recipe.charges``; what an account holds is
decided in ``tacit.ledger.filter`` alone, by every party.
"""
