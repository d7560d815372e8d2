"""Texts as telemetry has them: addresses of pages and signatures of crashes, made up from parts, the same ones always.

Both kinds share long prefixes with each other, and most are longer than eight bytes; some are longer than 64.
"""

from __future__ import annotations

import itertools
import random

_HOSTS = ("www.example.org", "shop.example.com", "news.example.net", "static.example.org")
_PLACES = ("", "account/", "help/", "search?q=", "articles/2026/", "products/garden/")
_PAGES = ("index.html", "login", "settings", "terms", "cookies", "shoes", "tulips", "weather", "a%20long%20story-0")
_MODULES = ("libui.so", "libnet.so", "libcodec.so", "kernel32.dll", "app")
_FUNCTIONS = ("draw_frame", "decode_block", "resolve_host", "std::vector<T>::at", "main", "on_timer", "free")


def urls(count: int) -> list[str]:
    """So many different addresses (648 at most), the most visited one first."""
    every = [
        f"https://{host}/{place}{page}{more}"
        for more, place, page, host in itertools.product(("", "?lang=en", "#top"), _PLACES, _PAGES, _HOSTS)
    ]
    return _shuffled(every, b"urls", count)


def crash_signatures(count: int) -> list[str]:
    """So many different signatures (280 at most): module, function, and offset."""
    every = [
        f"{module}!{function}+0x{offset:x}"
        for module, function, offset in itertools.product(_MODULES, _FUNCTIONS, range(16, 400, 48))
    ]
    return _shuffled(every, b"crashes", count)


def rows(texts: list[str], devices: int) -> list[str]:
    """The text of each device: shares fall with the rank r of the text as r^-1.2."""
    weights = [at**-1.2 for at in range(1, len(texts) + 1)]
    return random.Random(b"rows").choices(texts, weights, k=devices)


def _shuffled(every: list[str], seed: bytes, count: int) -> list[str]:
    return random.Random(seed).sample(every, count)
