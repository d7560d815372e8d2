"""The problem documents that only this service sends: the type, status and title of each."""

from __future__ import annotations

import enum

from tacit.errors import Abort


class Problem(enum.Enum):
    """A kind of refusal: its type (a URI), status and title."""

    FORBIDDEN = ("urn:tacit:problem:forbidden", 403, "Your role may not do this.")
    OWN_DRAFT = ("urn:tacit:problem:own-draft", 403, "Another person has to approve it.")
    OWN_CHANGE = ("urn:tacit:problem:own-change", 403, "Another administrator has to consent.")
    COUNTS_LATER = ("urn:tacit:problem:counts-later", 403, "Your approvals and consents do not count yet.")
    CSRF = ("urn:tacit:problem:csrf", 403, "The request shows no CSRF token.")
    STRAY = ("urn:tacit:problem:stray-sign-in", 403, "This sign-in was not expected.")
    UNBOUND = ("urn:tacit:problem:unbound-account", 403, "The account belongs to nobody here.")
    INVITATION = ("urn:tacit:problem:invitation", 403, "The invitation is not valid.")
    PROVIDER_REFUSED = ("urn:tacit:problem:provider-refused", 403, "The provider did not sign you in.")
    PASSKEY_NEEDED = ("urn:tacit:problem:passkey-needed", 403, "This needs a passkey.")
    PASSKEY = ("urn:tacit:problem:passkey", 403, "The passkey was not accepted.")
    PASSKEY_COUNTER = ("urn:tacit:problem:passkey-counter", 403, "The passkey may have been copied.")
    NOT_FOUND = ("urn:tacit:problem:not-found", 404, "This was not found.")
    QUESTION_STATE = ("urn:tacit:problem:question-state", 409, "The question's state does not allow this.")
    APPROVAL_VOID = ("urn:tacit:problem:approval-void", 409, "The approval is no longer valid.")
    INTERVAL_BEGAN = (
        "urn:tacit:problem:interval-began",
        409,
        "The recipe's interval began before the recipe was in the log.",
    )
    SIGNED = ("urn:tacit:problem:signed", 409, "A different signature was given before.")
    OTHER_RECIPE = ("urn:tacit:problem:other-recipe", 409, "This is not the recipe that waits for a signature.")
    ROUND_WAITS = ("urn:tacit:problem:round-waits", 409, "The next round of this series cannot be drafted now.")
    ROUND_DRAFTED = ("urn:tacit:problem:round-drafted", 409, "The next round of this series is drafted already.")
    ROUND_FIXED = ("urn:tacit:problem:round-fixed", 409, "The text of a round follows from the releases before it.")
    OTHER_TEXT = ("urn:tacit:problem:other-text", 409, "The question's text is of another kind.")
    NAME_TAKEN = ("urn:tacit:problem:name-taken", 409, "The name is taken.")
    LAST_ADMINISTRATOR = ("urn:tacit:problem:last-administrator", 409, "No administrator would be left.")
    IDENTITY_TAKEN = ("urn:tacit:problem:account-taken", 409, "The account is bound to another person.")
    KEY_TAKEN = ("urn:tacit:problem:key-taken", 409, "This key is already in use.")
    CHANGE_STALE = ("urn:tacit:problem:change-stale", 409, "The change no longer applies.")
    CHANGE_WAITS = ("urn:tacit:problem:change-waits", 409, "Another change waits for consent.")
    SHOWN_ONCE = ("urn:tacit:problem:shown-once", 409, "This was done before, and the answer is shown only once.")
    CHANGED = ("urn:tacit:problem:changed", 412, "Somebody has changed it since.")
    FIELD = ("urn:tacit:problem:field", 422, "A member of the document cannot be used.")
    USAGE = ("urn:tacit:problem:usage", 422, "The document cannot be used.")
    SIGNATURE = ("urn:tacit:problem:signature", 422, "The signature is not the analyst's.")
    IDEMPOTENCY_KEY = ("urn:tacit:problem:idempotency-key", 422, "This Idempotency-Key belongs to another request.")
    PRECONDITION = ("urn:tacit:problem:precondition", 428, "If-Match is missing.")
    LOCKED_OUT = ("urn:tacit:problem:locked-out", 429, "The account is locked.")
    EXTRA_MISSING = ("urn:tacit:problem:extra-missing", 501, "The service is installed without what this needs.")
    PEER_ANSWER = ("urn:tacit:problem:peer-answer", 502, "Another service gave an answer that cannot be used.")
    LOG_UNVERIFIED = ("urn:tacit:problem:log-unverified", 502, "What the log shows does not verify.")
    PEER_AWAY = ("urn:tacit:problem:peer-away", 503, "Another service cannot be reached.")

    @property
    def uri(self) -> str:
        return self.value[0]


def refuse(problem: Problem, detail: str, **extensions: object) -> Abort:
    """Make a refusal with these words. ``extensions``: further members of its document."""
    uri, status, title = problem.value
    return Abort(uri, detail, status=status, title=title, extensions=dict(extensions))


def not_found(what: str) -> Abort:
    """The refusal for something that does not exist."""
    return refuse(Problem.NOT_FOUND, f"no {what} has this id")


def away(peer: str, why: str) -> Abort:
    """The refusal while the service ``peer`` cannot be reached; ``why``: a clause about it."""
    return refuse(Problem.PEER_AWAY, f"the {peer}: {why}; ask again later", peer=peer)
