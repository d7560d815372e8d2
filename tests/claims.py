"""Claims of secure aggregation from what reports are worth."""

from __future__ import annotations

from tacit.dp.claim import Claim
from tacit.dp.hidden_claim import Sample
from tacit.dp.reports import Reports
from tacit.models.forms import form_of

FORM = form_of("secure-aggregation")


def compute_claim(reports: Reports, *, n: int, sampling_rate: float, delta: float) -> Claim:
    """The claim of n reports of devices that take part at one rate."""
    return FORM.claim(reports, Sample(1, sampling_rate), n=n, delta=delta)


def compute_hidden_claim(reports: Reports, sample: Sample, *, n: int, delta: float) -> Claim:
    """The claim of n messages of ``sample``, whose size tells, or is hidden by dummies."""
    return FORM.claim(reports, sample, n=n, delta=delta)
