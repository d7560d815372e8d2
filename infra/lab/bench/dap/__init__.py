"""The processor time that any DAP leader and helper need for a report, under the same load for every implementation.

The servers are somebody else's: known by their URLs and process ids alone. Tasks have no recipe, and reports no token.
"""
