"""The dashboard: the admin service's pages for people, rendered on the server and usable without a script.

A page shows the service's own objects, and acts through the routes of the API (``PageRequest.act``), so that
permissions, CSRF tokens, the audit log and refusals are the same for both.
"""
