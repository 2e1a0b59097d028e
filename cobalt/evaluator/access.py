"""Who may ask the service: requests that bear its token, which only a salted hash is kept of."""

import base64
import hashlib
import hmac


def fingerprint(salt: str, token: str) -> str:
    """What stands for a token in the application's arguments, which Ray shows to whoever asks."""
    return hashlib.sha256(f"{salt}:{token}".encode("utf-8", "surrogateescape")).hexdigest()


def allowed(authorization: str, token: tuple[str, str] | None) -> bool:
    """Whether a request with this header is answered. ``token``: salt and `fingerprint`; None: all are."""
    if token is None:
        return True
    salt, wanted = token
    kind, _, given = authorization.partition(" ")
    given = given.strip()
    if kind.lower() == "basic":  # all that clients of other services can be told to send
        try:
            given = base64.b64decode(given).decode().partition(":")[2]
        except ValueError:
            return False
    elif kind.lower() != "bearer":
        return False
    return hmac.compare_digest(fingerprint(salt, given), wanted)
