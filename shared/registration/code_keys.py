"""The keys that access codes are derived from: numbered, and kept as long as the orders whose codes came from them.

A new key is for new orders. An earlier order keeps the number of its key, so the same request gets the same code again.
"""

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from threading import Lock
from typing import Final

from shared.azure import OptimisticStore
from shared.clock import Clock
from shared.errors import ContentionError, StorageUnavailableError

#: The blob of the keys, in the container `settings`. No publisher has a role there.
KEYS: Final = "access-code-keys"
#: How long a process takes the newest key that it knows. A rotation has reached every process after it.
KEYS_KEPT: Final = timedelta(minutes=5)
_KEY_BYTES: Final = 32
#: Attempts to add a key. Only another operator writes the blob.
_ATTEMPTS: Final = 4


class CodeKeys:
    """The keys of one installation. The first process that needs one makes it. Several threads may use it."""

    def __init__(self, store: OptimisticStore, random: Callable[[int], bytes], clock: Clock) -> None:
        self._store, self._random, self._clock = store, random, clock
        self._keys: Mapping[int, str] = {}
        self._old_at = 0.0
        self._lock = Lock()

    def newest(self) -> int:
        """Return the number of the key for new orders. One request each five minutes, three for the first one ever."""
        with self._lock:
            if not self._keys or self._clock.monotonic() >= self._old_at:
                self._refresh()
            return max(self._keys)

    def find(self, number: int) -> bytes:
        """Return the key with this number. Raises StorageUnavailableError if the blob has lost it."""
        with self._lock:
            if number not in self._keys:
                # An operator may have added it since this process read them.
                self._keys = self._read()
            if number not in self._keys:
                raise StorageUnavailableError(
                    f"could not derive an access code: blob {self._store.name!r} has the keys {sorted(self._keys)}, "
                    f"the order was placed with key {number}; put the key back, from a copy of the blob"
                )
            return bytes.fromhex(self._keys[number])

    def add(self) -> int:
        """Add a key for new orders, and return its number. All earlier ones stay. Raises ContentionError."""
        key = self._random(_KEY_BYTES).hex()
        for _ in range(_ATTEMPTS):
            held = self._store.read()
            keys = _keys_of(held.value) if held else {}
            if found := [number for number, known in keys.items() if known == key]:
                # The write before was refused by its own first success, whose reply was lost.
                return found[0]
            number = max(keys, default=0) + 1
            if self._store.try_write(_content({**keys, number: key}), held.etag if held else None) is not None:
                return number
        raise ContentionError(
            f"could not add a key to blob {self._store.name!r} in {_ATTEMPTS} attempts: other writers changed it; "
            "find out who they are, then repeat"
        )

    def _refresh(self) -> None:
        try:
            self._keys = self._read() or self._make()
        except StorageUnavailableError:
            # An order by the key of before is as good: its number is stored with the order.
            if not self._keys:
                raise
        self._old_at = self._clock.monotonic() + KEYS_KEPT.total_seconds()

    def _read(self) -> Mapping[int, str]:
        found = self._store.read()
        return _keys_of(found.value) if found else {}

    def _make(self) -> Mapping[int, str]:
        self._store.try_write(_content({1: self._random(_KEY_BYTES).hex()}), None)
        # Another process may have been first, and a reply may be lost. What is stored counts.
        if keys := self._read():
            return keys
        raise StorageUnavailableError(f"could not make the first key in blob {self._store.name!r}: it was gone again")


def _keys_of(content: bytes) -> dict[int, str]:
    return {int(number): str(key) for number, key in json.loads(content)["keys"].items()}


def _content(keys: Mapping[int, str]) -> bytes:
    return json.dumps({"v": 1, "keys": {str(number): key for number, key in keys.items()}}).encode()
