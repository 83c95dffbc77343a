"""Forms of acts: each is named before it is done, says what its person saw, and is good for one person and one path.

The token binds these together. The name is the key of the act's row in the audit, so a second post of one form finds the
first one's row and does nothing.
"""

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from werkzeug.exceptions import BadRequest, Forbidden

from capabilities.console.guard import is_same
from capabilities.console.session import Person
from shared.operating import ActKey

#: How long a form is good.
GOOD_FOR: Final = timedelta(hours=12)
#: Characters of a reason.
MOST_WHY: Final = 500


@dataclass(frozen=True, slots=True)
class Form:
    """The hidden fields of one form, and where it is sent."""

    address: str
    at: str
    nonce: str
    #: The object as the person saw it.
    seen: str
    token: str


@dataclass(frozen=True, slots=True)
class Posted:
    """A form that came back, checked."""

    who: str
    why: str
    named: ActKey
    seen: str


def draw_form(person: Person, address: str, seen: str, now: datetime) -> Form:
    """Return a form of an act that this person may do."""
    at, nonce = now.isoformat(), secrets.token_hex(8)
    return Form(address, at, nonce, seen, _sign(person, address, at, nonce, seen))


def read_form(fields: Mapping[str, str], person: Person, address: str, now: datetime) -> Posted:
    """Return the form that was posted, or refuse it."""
    at, nonce, seen = (fields.get(name, "") for name in ("at", "nonce", "seen"))
    if not is_same(fields.get("token"), _sign(person, address, at, nonce, seen)):
        raise Forbidden("this form is not one of this console: open the page again; nothing was done")
    # Signed, so these are the console's own words.
    drawn = datetime.fromisoformat(at)
    if now - drawn > GOOD_FOR:
        raise Forbidden("this form is older than twelve hours: open the page again; nothing was done")
    why = " ".join(fields.get("why", "").split())
    if not why or len(why) > MOST_WHY:
        raise BadRequest(f"an act needs a reason of 1 to {MOST_WHY} characters: go back and say why; nothing was done")
    return Posted(person.who, why, ActKey(drawn, nonce), seen)


def _sign(person: Person, address: str, *words: str) -> str:
    # Each with its length, so that no two rows of words are one text.
    said = "".join(f"{len(word)}:{word}" for word in (person.who, address, *words))
    return hmac.new(person.key, said.encode(), sha256).hexdigest()
