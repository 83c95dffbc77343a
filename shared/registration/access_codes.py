"""Access codes of orders: the sender's own, or made here. Only salted hashes of them are stored.

A made code is derived from the order's id, its content and a key. So the same request gets the same code again, although
it is stored nowhere. Keys are numbered and kept as long as the orders whose codes were derived from them.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from threading import Lock
from typing import Final

from shared.azure import OptimisticStore
from shared.clock import Clock
from shared.errors import StorageUnavailableError
from shared.eventsourcing import Fields

#: The blob of the keys, in the container `settings`. No publisher has a role there.
KEYS: Final = "access-code-keys"
#: The form of a code: what a header carries unchanged.
ACCESS_CODE: Final = re.compile(r"[\x21-\x7e]{8,64}")
LONGEST: Final = 64
#: Ten of these are 50 bits. Without I, L, O and U, which people take for others.
_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LETTERS: Final = 10
_KEY_BYTES, _SALT_BYTES, _HASH_BYTES = 32, 16, 32
#: 2.3 ms of CPU. The default of 2^14 takes 44 ms, more than a request may cost.
_COST, _BLOCK, _PARALLEL = 2**10, 8, 1
#: The fields of an order's head.
_KEY, _SALT, _HASH = "code_key", "code_salt", "code_hash"
#: The number of the key of a code that was not made here.
_OWN: Final = 0
#: What an unknown order is hashed with, so that it takes the time of a known one.
_NO_SALT: Final = bytes(_SALT_BYTES)
#: How long a pair of order and code that was right once is believed without work.
KEPT: Final = timedelta(seconds=60)
#: The pairs that a process keeps at most.
_MOST_KEPT: Final = 10_000


@dataclass(frozen=True, slots=True)
class AccessCode:
    """A code, and what the order's head keeps of it."""

    code: str
    fields: Fields

    def __repr__(self) -> str:
        """Return a text without the code: errors and logs may show it."""
        return "AccessCode(...)"


class CodeKeys:
    """The keys that codes are derived from. The first process that needs one makes it."""

    def __init__(self, store: OptimisticStore, random: Callable[[int], bytes]) -> None:
        self._store, self._random = store, random
        self._keys: dict[int, bytes] = {}
        self._lock = Lock()

    def newest(self) -> int:
        """Return the number of the key for new orders. One request in the life of a process, three for the first ever."""
        with self._lock:
            if not self._keys:
                self._keys = self._read() or self._make()
            return max(self._keys)

    def find(self, number: int) -> bytes:
        """Return the key with this number. Raises StorageUnavailableError if the blob has lost it."""
        with self._lock:
            if number not in self._keys:
                # An operator may have added it since this process started.
                self._keys = self._read()
            if number not in self._keys:
                raise StorageUnavailableError(
                    f"could not derive an access code: blob {self._store.name!r} has the keys {sorted(self._keys)}, "
                    f"the order was placed with key {number}; put the key back, from a copy of the blob"
                )
            return self._keys[number]

    def _read(self) -> dict[int, bytes]:
        found = self._store.read()
        if found is None:
            return {}
        return {int(number): bytes.fromhex(key) for number, key in json.loads(found.value)["keys"].items()}

    def _make(self) -> dict[int, bytes]:
        content = {"v": 1, "keys": {"1": self._random(_KEY_BYTES).hex()}}
        self._store.try_write(json.dumps(content).encode(), None)
        # Another process may have been first, and a reply may be lost. What is stored counts.
        if keys := self._read():
            return keys
        raise StorageUnavailableError(f"could not make the first key in blob {self._store.name!r}: it was gone again")


class AccessCodes:
    """Makes the codes of orders and checks those that customers give."""

    def __init__(self, keys: CodeKeys, clock: Clock, random: Callable[[int], bytes]) -> None:
        self._keys, self._clock, self._random = keys, clock, random
        #: Of pairs that were right, with the time until which each is believed.
        self._right: dict[bytes, float] = {}

    def make(self, order: str, content: str, own: str | None) -> AccessCode:
        """Return the code of a new order, the sender's own if there is one. `content` is the hash of the order's content."""
        number = _OWN if own is not None else self._keys.newest()
        code = own if own is not None else _derive(self._keys.find(number), order, content)
        salt = self._random(_SALT_BYTES)
        return AccessCode(code, {_KEY: number, _SALT: salt.hex(), _HASH: _hash(code, salt).hex()})

    def repeat(self, order: str, content: str, own: str | None, fields: Fields) -> str | None:
        """Return the code of a stored order for the same request. None: the request has another code than the order."""
        number = int(fields[_KEY])
        if own is None and number == _OWN:
            return None
        code = own if own is not None else _derive(self._keys.find(number), order, content)
        return code if _matches(code, fields) else None

    def verify(self, order: str, code: str, find: Callable[[], Fields | None]) -> bool:
        """Return true if the code opens the order. `find` returns the fields of its head, or None without an order.

        A wrong code and an unknown order take the same work. A pair that was right within the last minute takes none.
        """
        pair = hashlib.sha256(f"{order}\0{code}".encode("utf-8", "surrogatepass")).digest()
        now = self._clock.monotonic()
        if self._right.get(pair, now) > now:
            return True
        if not _matches(code, find()):
            return False
        if len(self._right) >= _MOST_KEPT:
            self._right.clear()
        self._right[pair] = now + KEPT.total_seconds()
        return True


def _derive(key: bytes, order: str, content: str) -> str:
    digest = hmac.digest(key, f"{order}\0{content}".encode(), hashlib.sha256)
    number = int.from_bytes(digest)
    return "".join(_ALPHABET[number >> 5 * place & 31] for place in range(_LETTERS))


def _hash(code: str, salt: bytes) -> bytes:
    text = code[: LONGEST + 1].encode("utf-8", "surrogatepass")
    return hashlib.scrypt(text, salt=salt, n=_COST, r=_BLOCK, p=_PARALLEL, dklen=_HASH_BYTES)


def _matches(code: str, fields: Fields | None) -> bool:
    salt = _NO_SALT if fields is None else bytes.fromhex(str(fields[_SALT]))
    wanted = bytes(_HASH_BYTES) if fields is None else bytes.fromhex(str(fields[_HASH]))
    is_equal = hmac.compare_digest(_hash(code, salt), wanted)
    return is_equal and fields is not None and len(code) <= LONGEST
