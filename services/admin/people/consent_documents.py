"""Documents of changes that need consent."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tacit.service.documents.admin import Document
from tacit.service.documents.admin_people import ChangeDocument


class WaitingInvitation(ChangeDocument):
    """A waiting change that is an invitation, with the invitation's text, which is shown only once and becomes valid
    with the consent."""

    invitation: str = Field(repr=False)


class ConsentBody(Document):
    """A consent. ``digest``: the digest of the change that the person has read."""

    digest: Annotated[str, Field(max_length=64)]
