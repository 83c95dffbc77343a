"""How the text of a storage queue message carries its bytes: base64, or the text itself."""

import base64
import binascii

BASE64 = "base64"


def decoded(text: str, encoding: str) -> bytes | None:
    """Return the body's bytes, or None for text that is not in this encoding."""
    if encoding != BASE64:
        return text.encode()
    try:
        # .NET skips white space and nothing else.
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None


def encoded(body: str | bytes, encoding: str) -> str:
    """Return the message text for a body. Without an encoding the bytes must be UTF-8 text."""
    content = body.encode() if isinstance(body, str) else body
    return base64.b64encode(content).decode("ascii") if encoding == BASE64 else content.decode()
