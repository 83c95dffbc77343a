"""Unique ids: short numbers from one small blob.

Reading order: `sequence` (the blob's content and its rules), `history` (its events), `book` (the optimistic loop),
`reservations` (a range that is proven to be ours), `supply` (fetching ahead), `range_generator`. Beside them `explain`
(who held a number).
"""

from shared.ids.explain import Explanation, NumberFate, explain_in, read_sequence
from shared.ids.history import SequenceWrite, WriteKind
from shared.ids.range_generator import RangeGenerator, resume
from shared.ids.reservations import Sizing

__all__ = [
    "Explanation",
    "NumberFate",
    "RangeGenerator",
    "SequenceWrite",
    "Sizing",
    "WriteKind",
    "explain_in",
    "read_sequence",
    "resume",
]
