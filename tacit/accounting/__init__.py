"""The operator's accountant: what releases cost together, by privacy loss distributions and by Renyi divergences.

Events say what was run; accountants say what that costs. The heavy library behind it (dp-accounting, extra
``tacit[accounting]``) is imported when the first cost is asked for, never on a device: devices use ``tacit.dp``.
"""
