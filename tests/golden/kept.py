"""Compares what a release stored or sent with what today's code makes of it after reading it."""

import json

#: Each write makes it anew.
_CHANCE = {"nonce"}


def lost(before, after, place=""):
    """Yield the places of a document whose content is not in another one. What was added is no loss."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            if name not in after:
                yield f"{place}/{name} is not there"
            elif name not in _CHANCE:
                yield from lost(value, after[name], f"{place}/{name}")
    elif isinstance(before, list) and isinstance(after, list):
        yield from _lost_items(before, after, place)
    elif (inner := _documents(before, after)) is not None:
        yield from lost(*inner, place)
    elif (before, type(before)) != (after, type(after)):
        yield f"{place} was {before!r}, is {after!r}"


def _lost_items(before, after, place):
    keys = [_key(one) for one in before]
    if all(keys):
        # Rows of a table, of which there may be new ones between.
        known = {_key(one): one for one in after}
        for key, one in zip(keys, before, strict=True):
            yield from lost(one, known.get(key), f"{place}/{'|'.join(key)}")
    elif len(before) != len(after):
        yield f"{place} had {len(before)} items, has {len(after)}"
    else:
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from lost(one, other, f"{place}/{number}")


def _key(one):
    return (one["PartitionKey"], one["RowKey"]) if isinstance(one, dict) and "RowKey" in one else None


def _documents(before, after):
    """Return two texts as JSON, if both are an object or a list."""
    if not (isinstance(before, str) and isinstance(after, str)):
        return None
    try:
        inner = json.loads(before), json.loads(after)
    except ValueError:
        return None
    return inner if all(isinstance(one, dict | list) for one in inner) else None
