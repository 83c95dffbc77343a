"""Reads a payload that was taken in back, chunk by chunk, as it lies where the app keeps it."""

from shared.payload.reading import read_frame


def fetch(intake, payload, chunk):
    """Yield each frame's verified content with the position of its first line."""
    if payload.blob is not None:
        store = intake._stores.store_of_done() if payload.is_kept else intake._store
        stored = store.read_touched(payload.blob, chunk.offset, chunk.length)
    else:
        stored = payload.inline[chunk.offset : chunk.offset + chunk.length]
    return read_frames(stored, chunk, payload.codec, intake._limits)


def read_frames(stored, chunk, codec, limits):
    """Yield the same of bytes that are there already; one at a time, for expanded they may be many."""
    first = chunk.first_item
    for frame in chunk.frames:
        offset = frame.offset - chunk.offset
        yield first, read_frame(stored[offset : offset + frame.length], frame, codec, limits)
        first += frame.items
