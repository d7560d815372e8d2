"""The servers that a service uses beside its database: Redis for replay windows, a broker for announcements.

Without any of them everything works within the process, which then imports no client for them. A server's address with
its password is in a secret file; plain connections leave the machine only with ``insecure_http`` (P7).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import Field

from tacit.adapters.messaging.outage import TellOutage
from tacit.adapters.network.origins import is_loopback
from tacit.adapters.network.tls import LiveContext, private_context, tls_reason
from tacit.announcer import Announcer
from tacit.errors import UsageError
from tacit.ports import Clock, Entropy
from tacit.service.base.config_files import ConfigPath, Frozen
from tacit.service.base.log import get_logger
from tacit.service.base.secret_files import files_beside, read_secret

_REDIS_FORM = "must hold one URL, redis://USER:PASSWORD@HOST:PORT/0, rediss:// or unix://PATH"
_MQTT_FORM = "must hold one URL, mqtt://HOST:PORT or mqtts://USER:PASSWORD@HOST:PORT"


class RedisConfig(Frozen):
    """How to reach a Redis server, and under which keys."""

    redis: ConfigPath
    """File (0600) with the server's URL; ``rediss://...?ssl_ca_certs=FILE`` names the CA file to trust
    (``tacit.adapters.messaging.redis_client.connect``), by default the system's authorities."""
    prefix: str = Field(default="tacit", pattern=r"^[A-Za-z0-9_-]{1,64}$")
    """Prefix of every key, so that several stacks may share a server."""

    def url(self, *, insecure: bool) -> str:
        """The URL. Raises a ``UsageError`` that does not quote it."""
        from tacit.adapters.messaging.redis_client import TLS_OPTIONS

        url = _checked_url(self.redis, ("rediss", "unix"), ("redis",), _REDIS_FORM, insecure=insecure)
        return files_beside(self.redis, url, TLS_OPTIONS)


class AnnouncerConfig(Frozen):
    """How to reach an MQTT broker."""

    mqtt: ConfigPath
    """File (0600) with the broker's URL, ``mqtts://USER:PASSWORD@HOST:PORT``."""
    tls_ca: ConfigPath | None = None
    """PEM file of the authority to trust for the broker; by default the system's authorities."""

    def url(self, *, insecure: bool) -> str:
        """The URL. Raises a ``UsageError`` that does not quote it."""
        return _checked_url(self.mqtt, ("mqtts",), ("mqtt",), _MQTT_FORM, insecure=insecure)


def make_announcer(
    config: AnnouncerConfig,
    name: str,
    clock: Clock,
    entropy: Entropy,
    *,
    insecure: bool,
    report: TellOutage | None = None,
) -> Announcer:
    """The announcer of service ``name``; outages are logged unless ``report`` is given. Raises ``UsageError``."""
    from tacit.adapters.messaging.mqtt import Broker, MqttAnnouncer

    parts = urlsplit(config.url(insecure=insecure))
    secure = parts.scheme == "mqtts"
    broker = Broker(
        parts.hostname or "",
        parts.port or (8883 if secure else 1883),
        tls=broker_tls(config.tls_ca) if secure else None,
        username=parts.username,
        password=parts.password,
    )
    return MqttAnnouncer(broker, clock, entropy, report or outage_report(name, "announcements"))


def outage_report(service: str, what: str) -> TellOutage:
    """Log one line when ``what`` becomes unreachable and one when it is back."""
    log = get_logger(service)

    def report(error: Exception | None) -> None:
        if error is None:
            log.info("backend_back", backend=what)
        else:
            log.warning("backend_away", backend=what, error=error, why=tls_reason(error))

    return report


def broker_tls(ca: Path | None) -> LiveContext:
    """The TLS context for a broker, which trusts the authorities in ``ca``, or the system's without it. Raises
    ``UsageError``."""
    live = LiveContext("TLS of the broker", (ca,), partial(private_context, ca))
    live.current()
    return live


def _checked_url(path: ConfigPath, safe: tuple[str, ...], plain: tuple[str, ...], form: str, *, insecure: bool) -> str:
    text = read_secret(path).decode("utf-8", "replace").strip()
    try:
        parts = urlsplit(text)
        known = parts.scheme in safe + plain and text.split() == [text] and parts.port != 0
        complete = bool(parts.path if parts.scheme == "unix" else parts.hostname)
    except ValueError:
        known = complete = False
    if not known or not complete:
        raise UsageError(f"{path}: {form}")
    if parts.scheme in plain and not insecure and not is_loopback(parts.hostname or ""):
        raise UsageError(
            f"{path}: a plain connection to another machine; use {safe[0]}://, or set insecure_http = true"
        )
    return text
