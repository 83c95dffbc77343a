"""Every gate of an installation: reads it, or changes it by one conditional write whose outcome is always found out."""

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

#: Only people and the tick change gates: more lost races in a row mean that some program writes in a loop.
MOST_ATTEMPTS: Final = 20
#: The longest pause before the next attempt, in seconds.
LONGEST_PAUSE: Final = 0.2


class Changed(NamedTuple):
    """The gate before and after a change. Both are the same object if there was nothing to do."""

    before: GateState
    after: GateState

    @property
    def is_opening(self) -> bool:
        """True if this change began a new epoch."""
        return self.after.epoch > self.before.epoch


class _Read(NamedTuple):
    state: GateState
    etag: str | None = None
    reply_time: datetime | None = None


class Gates:
    """The gates of an installation, each in a store of its own."""

    def __init__(self, store_of: Callable[[str], OptimisticStore], pause: Callable[[float], None] = time.sleep) -> None:
        self._store_of, self._pause = store_of, pause

    def read(self, name: str) -> GateState:
        """Read the gate. A gate without a blob is closed and was never opened."""
        return self._read(name).state

    def change(
        self,
        name: str,
        decide: Callable[[GateState], GateState],
        prepare: Callable[[GateState], object] = lambda _state: None,
    ) -> Changed:
        """Write the state that `decide` returns, unless it is the very same object."""
        return self.change_by_time(name, lambda state, _reply_time: decide(state), prepare)

    def change_by_time(
        self,
        name: str,
        decide: Callable[[GateState, datetime | None], GateState],
        prepare: Callable[[GateState], object] = lambda _state: None,
    ) -> Changed:
        """Do the same, but decide by the time that storage gave in the very reply that holds the state.

        `prepare` runs between the read and the write of every attempt. So a pointer that it writes exists before the
        state that it leads to. The pointer is also newer than any clean-up that made the previous attempt fail.
        """
        tried: dict[str, Changed] = {}
        for _attempt in range(MOST_ATTEMPTS):
            before, etag, reply_time = self._read(name)
            # An earlier attempt may have taken effect, although it was refused or its reply was lost.
            written = next((change for nonce, change in tried.items() if before.was_written_with(nonce)), None)
            if written:
                return written
            after = decide(before, reply_time)
            if after is before:
                return Changed(before, before)
            prepare(after)
            nonce = secrets.token_hex(8)
            tried[nonce] = Changed(before, sign(before, after, nonce))
            if self._try_write(name, tried[nonce].after, etag):
                return tried[nonce]
            self._pause(random.uniform(0, LONGEST_PAUSE))  # noqa: S311 - spreads writers, hides nothing
        raise ContentionError(
            f"could not change gate {name!r}: other writers were faster {MOST_ATTEMPTS} times in a row; find them in "
            f"its history (`sluice gate status {name}`), then retry"
        )

    def _read(self, name: str) -> _Read:
        found = self._store_of(check_name(name)).read()
        return _Read(GateState()) if found is None else _Read(decode(found.value, name), found.etag, found.told)

    def _try_write(self, name: str, state: GateState, etag: str | None) -> bool:
        try:
            return self._store_of(name).try_write(encode(state), etag) is not None
        except StorageUnavailableError:
            return False
