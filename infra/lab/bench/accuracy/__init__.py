"""``tacit bench accuracy``: errors, recall and costs over populations, beside peers and targets."""
