"""Every gate: read, and changed by one conditional write whose outcome is always found out."""

import random
import secrets
import time
from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple

from shared.azure import OptimisticStore
from shared.errors import ContentionError, StorageUnavailableError
from shared.gate.gate_decisions import sign
from shared.gate.state import GateState, check_name, decode, encode

#: Gates are changed by people and by the tick: more losses in a row mean that something writes in a loop.
MOST_ATTEMPTS: Final = 20
#: The longest pause before the next attempt, in seconds.
LONGEST_PAUSE: Final = 0.2


class Changed(NamedTuple):
    """What a change found and what it left; both are the same when there was nothing to do."""

    before: GateState
    after: GateState

    @property
    def is_opening(self) -> bool:
        """Whether this change made a new epoch."""
        return self.after.epoch > self.before.epoch


class _Read(NamedTuple):
    state: GateState
    etag: str | None = None
    told: datetime | None = None


class Gates:
    """The gates of an installation, each in a store of its own."""

    def __init__(self, store_of: Callable[[str], OptimisticStore], pause: Callable[[float], None] = time.sleep) -> None:
        self._store_of, self._pause = store_of, pause

    def read(self, name: str) -> GateState:
        """Return the gate; one without a blob is closed and was never opened."""
        return self._read(name).state

    def change(
        self,
        name: str,
        decide: Callable[[GateState], GateState],
        prepare: Callable[[GateState], object] = lambda _state: None,
    ) -> Changed:
        """Write what `decide` makes of the gate, unless it returns the very same state."""
        return self.change_by_time(name, lambda state, _told: decide(state), prepare)

    def change_by_time(
        self,
        name: str,
        decide: Callable[[GateState, datetime | None], GateState],
        prepare: Callable[[GateState], object] = lambda _state: None,
    ) -> Changed:
        """Do the same, deciding by the time that storage told in the very reply that is decided on.

        `prepare` runs between the read and the write of every attempt: a pointer that it writes is there before the
        state that it points to, and is newer than any clean-up which made the previous attempt fail.
        """
        tried: dict[str, Changed] = {}
        for _attempt in range(MOST_ATTEMPTS):
            before, etag, told = self._read(name)
            # An earlier attempt may have taken effect although it was refused or its reply was lost.
            written = next((change for nonce, change in tried.items() if before.was_written_with(nonce)), None)
            if written:
                return written
            after = decide(before, told)
            if after is before:
                return Changed(before, before)
            prepare(after)
            nonce = secrets.token_hex(8)
            tried[nonce] = Changed(before, sign(before, after, nonce))
            if self._try_write(name, tried[nonce].after, etag):
                return tried[nonce]
            self._pause(random.uniform(0, LONGEST_PAUSE))  # noqa: S311 - spreads writers, hides nothing
        raise ContentionError(
            f"gate {name!r} was changed by others {MOST_ATTEMPTS} times in a row; look at its history "
            f"(`sluice gate status {name}`), then try again"
        )

    def _read(self, name: str) -> _Read:
        found = self._store_of(check_name(name)).read()
        return _Read(GateState()) if found is None else _Read(decode(found.value, name), found.etag, found.told)

    def _try_write(self, name: str, state: GateState, etag: str | None) -> bool:
        try:
            return self._store_of(name).try_write(encode(state), etag) is not None
        except StorageUnavailableError:
            return False
