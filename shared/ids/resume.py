"""The one way on after a loss or a restore: a person says which numbers may be in use."""

import secrets
from datetime import datetime

from shared.errors import ContentionError, SequenceCorruptError
from shared.ids import log, sequence
from shared.ids.book import MARKER
from shared.ids.event import Signature
from shared.ids.sequence import Sequence
from shared.ids.store import OptimisticStore, Snapshot


def resume(store: OptimisticStore, above: int, who: str, now: datetime) -> Sequence:
    """Make the sequence go on above the given number, whatever its blob holds, and return what was written.

    `above` must be the highest id that may have been given, what running processes hold included; stop or restart
    them: they have seen the lost history and refuse this one. It never moves a sequence back.
    """
    snapshot = store.read()
    by = Signature(who, secrets.token_hex(8), now.replace(microsecond=0))
    page = _readable(snapshot, store.name) or sequence.created(0, by)
    resumed = sequence.resume(page, above + 1, log.end(store, page), by)
    # A sequence that was lost once is not to be taken for a new one later.
    store.beside(MARKER).try_write(b"{}\n", None)
    if store.try_write(resumed.encode(), snapshot.etag if snapshot else None) is None:
        raise ContentionError(f"blob {store.name!r} changed while it was resumed; look at it again, then repeat")
    return resumed


def _readable(snapshot: Snapshot | None, name: str) -> Sequence | None:
    try:
        return sequence.parse(snapshot.value, name) if snapshot else None
    except SequenceCorruptError:
        return None
