"""The configuration, in the module where every service has it."""

from __future__ import annotations

from services.admin.core.config import AdminConfig, SignInConfig

__all__ = ["AdminConfig", "SignInConfig"]
