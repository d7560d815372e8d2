"""Where the services of a stack expose their metrics: on loopback, or in containers to their own organisation."""

from __future__ import annotations

from typing import Any

from infra.base.certificate_files import CA_FILE, CERTIFICATE, KEY
from infra.stacks.options import LOOPBACK, OPERATORS, StackOptions, address_of, organisation_of
from infra.stacks.tls import OPERATOR, party_name
from tacit.service.metrics_listener import READER
from tacit.service.operator_api import ROLE


def metrics_place(service: str, options: StackOptions) -> dict[str, Any]:
    """Return the members of ``metrics`` in a service's configuration other than the port. A container exposes metrics
    at its own address, as nobody else reaches its loopback: to its organisation's Prometheus, and to the stack's
    operator with the service's token."""
    if not options.containers:
        return {"host": LOOPBACK}
    folder = options.tls_folder
    return {
        "host": address_of(service, options),
        "tls_cert": f"{folder}{CERTIFICATE}",
        "tls_key": f"{folder}{KEY}",
        "client_ca": f"{folder}{CA_FILE}",
        "client_names": {
            READER: [prometheus_name(organisation_of(service))],
            ROLE: [party_name(OPERATOR, OPERATORS)],
        },
    }


def prometheus_name(organisation: str) -> str:
    """Return the DNS name in the certificate of an organisation's Prometheus."""
    return f"prometheus.{organisation}.example"
