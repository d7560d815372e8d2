"""The dashboard: pages of the admin service for people, rendered here and readable without a script.

A page shows what the service's own objects say and acts by the routes of the API (``Visit.act``), so that permissions,
tokens against forgery, the audit log and refusals are the same for both.
"""
