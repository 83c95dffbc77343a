"""Access codes of orders: the sender's own, or made here. Only salted hashes of them are stored.

The content of an order gives no code: its id, conference and seats are published. A made code follows from the
`Idempotency-Key` of its request, which is stored nowhere. So the same request gets the same code again, and no other does.
Without a key a code is drawn, and is in one answer alone.

The salt follows from the order's id and content. So a hash that was kept in place of a code, in a parked message, can be
compared with that of the order.

Counts wrong access codes, and tells an operator when a caller tries many.
"""

import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from math import log2
from string import ascii_lowercase, ascii_uppercase, digits
from threading import Lock
from typing import Final

from capabilities.registration import events as order_events
from capabilities.registration.reasons import OrderReason
from shared.clock import Clock
from shared.processes import Fields
from shared.refusals import refuse
from shared.telemetry import Telemetry, tell

#: The form of a code: what a header carries unchanged.
ACCESS_CODE: Final = re.compile(r"[\x21-\x7e]{8,64}")
LONGEST: Final = 64
#: The form of the key of a request. Its form alone tells whether it can be guessed.
_IDEMPOTENCY_KEY: Final = re.compile(r"[\x21-\x7e]{22,128}")
_LEAST_BITS, _LEAST_DIFFERENT = 128, 8
#: What the characters of a key may be drawn from, the smallest first: those of a UUID, for example. Else from 64 at least.
_DRAWN_FROM: Final = (digits, digits + "abcdef", digits + "ABCDEF", digits + ascii_lowercase, digits + ascii_uppercase)
_ANY: Final = 64
#: The form of a hash that stands for a code.
CODE_HASH: Final = re.compile(r"[0-9a-f]{64}")
#: The letters of codes: ten of them are 50 bits. Without I, L, O and U, which people take for others.
CODE_LETTERS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LETTERS: Final = 10
_SALT_BYTES, _HASH_BYTES = 16, 32
#: 2.3 ms of CPU. The default of 2^14 takes 44 ms, more than a request may cost.
_COST, _BLOCK, _PARALLEL = 2**10, 8, 1
#: The fields of an order's head.
_KEY, _SALT, _HASH = "code_key", "code_salt", "code_hash"
#: The key of every code of today. Earlier versions made codes by numbered keys, from the content of their orders.
_OWN: Final = 0
#: In place of a hash, where an order came by a message without a code: no code opens it.
_NOBODYS: Final = bytes(_HASH_BYTES)
#: What an unknown order is hashed with, so that it takes the time of a known one.
_NO_SALT: Final = bytes(_SALT_BYTES)
#: How long a pair of order and code that was right once is believed without work.
KEPT: Final = timedelta(seconds=60)
#: The pairs that a process keeps at most.
_MOST_KEPT: Final = 10_000


@dataclass(frozen=True, slots=True)
class CodeHash:
    """The hash of a sender's own code, in place of the code itself: what a parked order keeps of it."""

    #: Not in its text either: a short code can be found by trying all.
    hash: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class AccessCode:
    """A code, and what the order's head keeps of it."""

    #: Empty: only its hash is known.
    code: str
    fields: Fields

    def __repr__(self) -> str:
        """Return a text without the code: errors and logs may show it."""
        return "AccessCode(...)"


class AccessCodes:
    """Keeps what orders need of their codes, and checks those that customers give."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: Of pairs that were right, with the time until which each is believed.
        self._right: dict[bytes, float] = {}

    def make(self, order: str, content: str, own: str | CodeHash | None) -> AccessCode:
        """Return the code of a new order, with the fields that its head keeps. `content` is the hash of the order's content."""
        salt = _salt(order, content)
        if isinstance(own, CodeHash):
            return AccessCode("", {_KEY: _OWN, _SALT: salt.hex(), _HASH: own.hash})
        hashed = _NOBODYS if own is None else _hash(own, salt)
        return AccessCode(own or "", {_KEY: _OWN, _SALT: salt.hex(), _HASH: hashed.hex()})

    def repeat(self, order: str, content: str, own: str | CodeHash | None, fields: Fields) -> str | None:
        """Return the code of a stored order for the same request. None: the request has another code than the order.

        A message without a code repeats an order without one. It gets no code.
        """
        stored = bytes.fromhex(str(fields[_HASH]))
        if own is None:
            return "" if stored == _NOBODYS or int(fields[_KEY]) != _OWN else None
        if isinstance(own, CodeHash):
            # With another salt, nothing tells whether the codes are the same.
            is_same = fields[_SALT] == _salt(order, content).hex() and hmac.compare_digest(own.hash, str(fields[_HASH]))
            return "" if is_same else None
        return own if _matches(own, fields) else None

    def verify(self, order: str, code: str, find: Callable[[], Fields | None]) -> bool:
        """Return true if the code opens the order. `find` returns the fields of its head, or None without an order.

        A wrong code and an unknown order take the same work. A pair that was right within the last minute takes none.
        """
        now = self._clock.monotonic()
        if self._right.get(_pair(order, code), now) > now:
            return True
        if not _matches(code, find()):
            return False
        self.remember(order, code)
        return True

    def remember(self, order: str, code: str) -> None:
        """Believe a pair that is right: the order is stored with this code."""
        if len(self._right) >= _MOST_KEPT:
            self._right.clear()
        self._right[_pair(order, code)] = self._clock.monotonic() + KEPT.total_seconds()


def read_idempotency_key(text: str | None) -> bytes | None:
    """Return the key of a request, or None without one. One that can be guessed is refused. It is in no error."""
    if text is None:
        return None
    # The draft of the header has quotes around it. They are no part of the key.
    key = text.strip().removeprefix('"').removesuffix('"')
    letters = key.replace("-", "")
    size = next((len(some) for some in _DRAWN_FROM if set(letters) <= set(some)), None)
    # Hyphens group what is drawn from a small alphabet. A large one has them.
    bits = int(len(letters) * log2(size) if size else len(key) * log2(_ANY))
    if not _IDEMPOTENCY_KEY.fullmatch(key) or bits < _LEAST_BITS or len(set(letters)) < _LEAST_DIFFERENT:
        found = f"it has {len(key)} characters, {len(set(letters))} different ones, and {bits} bits if they were drawn at random"
        raise refuse(OrderReason.BAD_IDEMPOTENCY_KEY, found)
    return key.encode()


def derive_code(key: bytes, order: str, content: str) -> str:
    """Return the code of a request with this key, which its sender alone knows. `content` is the hash of the content."""
    digest = hmac.digest(key, f"{order}\0{content}".encode(), hashlib.sha256)
    number = int.from_bytes(digest)
    return "".join(CODE_LETTERS[number >> 5 * place & 31] for place in range(_LETTERS))


def hash_own(order: str, content: str, code: str) -> CodeHash:
    """Return the hash that stands for a sender's own code. `content` is the hash of the order's content, without the code."""
    return CodeHash(_hash(code, _salt(order, content)).hex())


def _pair(order: str, code: str) -> bytes:
    return hashlib.sha256(f"{order}\0{code}".encode("utf-8", "surrogatepass")).digest()


def _salt(order: str, content: str) -> bytes:
    """Return the salt of an order's code: another one for each order, so no two hashes of one code are alike."""
    return hashlib.sha256(f"code of\0{order}\0{content}".encode()).digest()[:_SALT_BYTES]


def _hash(code: str, salt: bytes) -> bytes:
    text = code[: LONGEST + 1].encode("utf-8", "surrogatepass")
    return hashlib.scrypt(text, salt=salt, n=_COST, r=_BLOCK, p=_PARALLEL, dklen=_HASH_BYTES)


def _matches(code: str, fields: Fields | None) -> bool:
    salt = _NO_SALT if fields is None else bytes.fromhex(str(fields[_SALT]))
    wanted = bytes(_HASH_BYTES) if fields is None else bytes.fromhex(str(fields[_HASH]))
    is_equal = hmac.compare_digest(_hash(code, salt), wanted)
    return is_equal and fields is not None and len(code) <= LONGEST


#: Wrong codes in a minute at one instance that are no longer the mistakes of customers.
MANY: Final = 100
_WITHIN: Final = 60.0


class WrongCodes:
    """The wrong codes of one process, minute by minute."""

    def __init__(self, clock: Clock, telemetry: Telemetry) -> None:
        self._clock, self._telemetry, self._lock = clock, telemetry, Lock()
        self._began, self._count = clock.monotonic(), 0

    def note(self) -> None:
        """Count one. The hundredth of a minute is logged, once."""
        self._telemetry.add(order_events.WRONG_CODES)
        now = self._clock.monotonic()
        with self._lock:
            if now - self._began >= _WITHIN:
                self._began, self._count = now, 0
            self._count += 1
            is_many = self._count == MANY
        if is_many:
            tell(order_events.CODES_TRIED, wrong=MANY, seconds=round(now - self._began))
