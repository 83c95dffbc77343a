"""Unique ids: short numbers from one small blob.

Reading order:

- `sequence`: the content of the blob, its rules and its events
- `book`: the optimistic loop, the log of older events, and ranges that are proven to be the node's own
- `range_generator`: the public generator, numbers in memory that it fetches ahead, and the way on after a loss
- `explain`: the node that held a number
"""

from shared.ids.book import Sizing
from shared.ids.explain import Explanation, NumberFate, explain_in, read_sequence
from shared.ids.range_generator import RangeGenerator, resume
from shared.ids.sequence import SequenceWrite, WriteKind

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
