"""Claims of secure aggregation from bare numbers."""

from __future__ import annotations

from tacit.dp.claim import Claim, NoiseStep
from tacit.dp.hidden_claim import Reports, Sample, local_reports, noise_reports
from tacit.models.forms.registry import form_of

FORM = form_of("secure-aggregation")


def compute_claim(
    *,
    randomizer: str,
    epsilon0: float,
    n: int,
    sampling_rate: float,
    delta: float,
    reject_probability: float = 0.0,
) -> Claim:
    """The claim of n randomised reports of devices that take part at one rate."""
    reports = local_reports(randomizer, epsilon0, reject_probability)
    return FORM.claim(reports, Sample(1, sampling_rate), n=n, delta=delta)


def compute_noise_claim(step: NoiseStep, *, n: int, sampling_rate: float, delta: float) -> Claim:
    """The claim of n noise shares of devices that take part at one rate."""
    return FORM.claim(noise_reports(step), Sample(1, sampling_rate), n=n, delta=delta)


def compute_hidden_claim(reports: Reports, sample: Sample, *, n: int, delta: float) -> Claim:
    """The claim of n messages of ``sample``, whose size tells, or is hidden by dummies."""
    return FORM.claim(reports, sample, n=n, delta=delta)
