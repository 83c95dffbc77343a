"""The size of rows: what Azure refuses, although the local Azurite takes rows of any size."""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from shared.errors import RowTooLargeError

Entity: TypeAlias = dict[str, Any]
#: Azure Tables takes 32 Ki UTF-16 characters per string and 1 MiB per entity. Half of that leaves room for the names,
#: which Azure counts in its own way.
MOST_CHARACTERS: Final = 32 * 1024 - 1
MOST_BYTES: Final = 512 * 1024
#: Rows of one group.
MOST_GROUP_ROWS: Final = 100
#: Their bytes. Azure takes 4 MiB, but `entity_size` does not count the frame around each row.
MOST_GROUP_BYTES: Final = 3 * 1024 * 1024


def check_limits(entity: Entity) -> Entity:
    """Return the entity, or raise RowTooLargeError if Azure would refuse it. Azurite would not."""
    where = f"row {entity['RowKey']!r} of {entity['PartitionKey']!r}"
    size = 0
    for name, value in entity.items():
        length = utf16_length(value) if isinstance(value, str) else 8
        if length > MOST_CHARACTERS:
            raise RowTooLargeError(
                f"could not write {where}: {name!r} has {length} characters, the limit is {MOST_CHARACTERS}"
            )
        size += 2 * (len(name) + length)
    if size > MOST_BYTES:
        raise RowTooLargeError(f"could not write {where}: it has {size} bytes, the limit is {MOST_BYTES}")
    return entity


def entity_size(entity: Mapping[str, Any]) -> int:
    """Estimate the bytes of an entity with its names. Azure counts two bytes per character."""
    return sum(
        2 * len(name) + (2 * utf16_length(value) if isinstance(value, str) else 16) for name, value in entity.items()
    )


def utf16_length(text: str) -> int:
    """Return the length as Azure counts it: two per character outside the basic plane."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
