"""Unique ids: short numbers from one small blob.

Reading order: `store` (what is asked of storage), `sequence` (what the blob says, and what may follow), `book` (the
optimistic loop and its guards), `reservations` (a range that is proven to be ours), `supply` (fetching ahead),
`range_generator`. Beside them `explain` (who held a number) and `resume` (after a loss).
"""

from shared.ids.blob_store import BlobStore, connect
from shared.ids.event import Event, Kind
from shared.ids.explain import Explanation, Fate, explain_in, read_sequence
from shared.ids.range_generator import RangeGenerator
from shared.ids.resume import resume
from shared.ids.sequence import Sequence
from shared.ids.sizing import Sizing
from shared.ids.store import OptimisticStore, Snapshot

__all__ = [
    "BlobStore",
    "Event",
    "Explanation",
    "Fate",
    "Kind",
    "OptimisticStore",
    "RangeGenerator",
    "Sequence",
    "Sizing",
    "Snapshot",
    "connect",
    "explain_in",
    "read_sequence",
    "resume",
]
