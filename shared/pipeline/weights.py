"""How much memory a piece of work may take at most, by what is known of it beforehand; pure.

Measured with the built-in workloads; what a workload keeps beside its partial is its own.
"""

from typing import Final

from shared.payload.form import Content, FileBlob, FramedBlob, Inline
from shared.payload.limits import KIB, MIB, Limits

#: What chunks and submissions may take together in a process, and beside them the finishing of jobs, small and large.
WORK, SMALL_FINISHES, LARGE_FINISHES = 224 * MIB, 48 * MIB, 160 * MIB
#: A job that is finished among the large ones.
LARGE: Final = 8 * MIB

#: Whatever the message holds, with what the clients of storage keep for it.
_ANY: Final = 256 * KIB
#: Objects of a byte that is expanded: the text, its lines, and strings of up to four bytes a character.
_OF_A_BYTE: Final = 6
#: Objects of a transaction while its part is run, and of what is left of it until the result is stored.
_OF_AN_ITEM, _LEFT_OF_AN_ITEM = 700, 500
#: A block of the file, what it expands to, the frame that is made of it, and the window of its compression.
_OF_A_FILE: Final = 40 * MIB
#: Objects of a byte of an index and of a message, of a frame in both index and plan, and of a transaction when merged.
_OF_AN_INDEX, _OF_A_MESSAGE, _OF_A_FRAME, _OF_A_MERGED_ITEM = 4, 64, KIB, 1000


def of_chunk(stored: int, expanded: int, items: int, limits: Limits) -> int:
    """Return what a chunk may take: its stored bytes, the objects of one part, and what comes out."""
    part = min(expanded, limits.part_bytes + limits.frame_expanded_most)
    run = part * _OF_A_BYTE + min(items, limits.part_items) * _OF_AN_ITEM
    return _ANY + 2 * stored + run + items * _LEFT_OF_AN_ITEM


def of_submission(content: Content, limits: Limits) -> int:
    """Return what taking in a payload may take until its plan is stored."""
    if isinstance(content, FramedBlob) and content.index is None:
        return limits.index_bytes * _OF_AN_INDEX
    if isinstance(content, FileBlob) or (isinstance(content, Inline) and content.index is None):
        return _OF_A_FILE
    return limits.message_bytes * _OF_A_MESSAGE


def of_plan(frames: int) -> int:
    """Return what an index and its plan take."""
    return _ANY + frames * _OF_A_FRAME


def of_dispatch(chunks: int, frames: int) -> int:
    """Return what putting a job's chunks may take: its plan, and a hundred messages with their bytes."""
    return of_plan(frames) + min(chunks, 100) * 2 * 64 * KIB


def of_finish(items: int) -> int:
    """Return what finishing a job may take: a partial, its window of results, and a part that is written."""
    return MIB + items * _OF_A_MERGED_ITEM
