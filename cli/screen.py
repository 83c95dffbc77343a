"""Text of others on a person's screen."""

from rich.text import Text


def clean(text: str) -> Text:
    """Return text from a message, a row or a library as text: neither markup nor control sequences of a terminal."""
    return Text("".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in text))
