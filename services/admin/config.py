"""The configuration, in the module where every service has it."""

from __future__ import annotations

from services.admin.base.config import AdminConfig, SignInConfig

__all__ = ["AdminConfig", "SignInConfig"]
