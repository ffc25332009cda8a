"""Questions of parties to the api service, narrowed to their namespaces. No input or output."""

import msgspec

from sluice.api.errors import UNREADABLE
from sluice.core.config.plan import status
from sluice.protocol.query import StatusDetails
from sluice.rights.gate_policy import covers
from sluice.rights.parties import Party

from .offers import MALFORMED, MAY_NOT, Refused

MOST_BYTES = 64 * 1024
_REASONS = {400: "BadRequest", 403: "Forbidden", 429: "TooManyRequests"}


def narrow(party: Party, prefix: str, suffix: str, payload: bytes) -> bytes | Refused:
    """Return the question as it is to be answered: whatever it said, within the party's namespaces."""
    if not any(covers(pattern, prefix + suffix) for pattern in party.asks):
        return Refused(MAY_NOT, f"{party.user} may not ask {suffix[:200]}")
    if len(payload) > MOST_BYTES:
        return Refused(MALFORMED, f"a question of {len(payload)} bytes: {MOST_BYTES} at most")
    try:
        asked = msgspec.json.decode(payload or b"{}", type=dict[str, msgspec.Raw])
    except UNREADABLE:
        return Refused(MALFORMED, "not an object of JSON")
    # Written anew, so that no second `within` is left.
    return msgspec.json.encode({**asked, "within": party.namespaces})


def unanswered(refused: Refused, wait_s: float) -> bytes:
    """Return a refusal as the api service writes it."""
    found = status(_REASONS.get(refused.code, "BadRequest"), refused.why)
    if wait_s:
        details = StatusDetails(retry_after_seconds=max(1, round(wait_s)))
        found = msgspec.structs.replace(found, details=details)
    return msgspec.json.encode(found)
