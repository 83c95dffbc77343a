"""Reads a payload that was taken in back, frame by frame, as it lies where the app keeps it."""

from shared.payload.reading import read_frame


def fetch(intake, payload):
    """Yield each frame's verified content with the position of its first line."""
    store = intake._stores.store_of_done() if payload.is_kept else intake._store
    first = 0
    for frame in payload.index.frames:
        if payload.blob is None:
            stored = payload.inline[frame.offset : frame.offset + frame.length]
        else:
            stored = store.read_touched(payload.blob, frame.offset, frame.length)
        yield first, read_frame(stored, frame, payload.codec, intake._limits)
        first += frame.items


def read_frames(stored, index, codec, limits):
    """Yield the same of bytes that are there already; one at a time, for expanded they may be many."""
    for frame in index.frames:
        yield read_frame(stored[frame.offset : frame.offset + frame.length], frame, codec, limits)
