"""Unique ids: short numbers from one small blob.

Reading order:

- `sequence`, `history`: the content of the blob, its rules and its events
- `book`: the optimistic loop, and the log of older events
- `reservations`: ranges that are proven to be the node's own
- `supply`: numbers in memory, fetched ahead
- `range_generator`: the public generator, and the way on after a loss
- `explain`: the node that held a number
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
