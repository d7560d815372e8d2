"""``tacit serve interop``: the interoperation test API of DAP (draft-dcook-ppm-dap-interop-test-design) over this
project's own client, leader, helper and collector.

For tests only. Every caller can add tasks, with keys and tokens in plain text; there is no recipe, no log, no opt-in
and no report token, so nothing keeps one sender from counting a thousand times. All insecure parts are here:
``BareParty`` counts reports without tokens, ``BatchClose.ON_QUERY`` releases whatever is requested. No service imports
this package (a contract of import-linter) or reads a setting that would lead here.
"""
