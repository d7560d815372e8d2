"""The health check of a container: exits with 0 if the service with the given configuration is ready, else with 1.

    python3 -m infra.base.probe /etc/tacit/config.json

It requests ``/readyz`` from the service's own listener, and uses the standard library only, to start fast.
"""

from __future__ import annotations

import http.client
import json
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path

SECONDS = 5.0
READY, NOT_READY = 0, 1


def is_ready(config: Path) -> bool:
    """Whether ``/readyz`` answers 200; with TLS, the certificate must be signed by the configuration's authority."""
    body = json.loads(config.read_text("utf-8"))
    listen = body["listen"]
    place = listen["host"], listen["port"]
    if listen.get("tls_cert"):
        context = ssl.create_default_context(cafile=str(config.parent / body["peer_ca"]))
        link: http.client.HTTPConnection = http.client.HTTPSConnection(*place, timeout=SECONDS, context=context)
    else:
        link = http.client.HTTPConnection(*place, timeout=SECONDS)
    try:
        link.request("GET", "/readyz")
        return link.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        link.close()


def main(arguments: Sequence[str]) -> int:
    """Return the exit code for the arguments ``[configuration]``."""
    try:
        return READY if is_ready(Path(arguments[0])) else NOT_READY
    except (IndexError, OSError, ValueError, KeyError, TypeError) as error:
        print(f"probe: {type(error).__name__}: {error}", file=sys.stderr)
        return NOT_READY


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
