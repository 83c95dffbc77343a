"""Reading a view: the pointer says which version, and one request reads its row."""

from collections.abc import Callable, Mapping

from shared.readmodels.pointers import KeptPointer, Slot
from shared.readmodels.projection import ViewKey
from shared.readmodels.slot_table import SlotTable, StoredView, ViewPlace


class ViewReader:
    """Reads the rows of one model, in the version that is current."""

    def __init__(self, pointer: KeptPointer, slots: Mapping[Slot, SlotTable]) -> None:
        self._pointer, self._slots = pointer, slots

    def find(self, key_of: Callable[[int], ViewKey | None]) -> StoredView | None:
        """Return the row, or None. `key_of` makes its key for the number of the current version, or says that there is no row.

        One request, and one for the pointer every two seconds. A missing row is believed only under a pointer that is
        still young after the read: a reader that stood still may have read a slot that was emptied meanwhile.
        """
        while True:
            pointer = self._pointer.get()
            key = key_of(pointer.current)
            place = key and ViewPlace.of(pointer.model, pointer.current, key)
            found = self._slots[pointer.slot].find(place) if place else None
            if found is not None or self._pointer.is_young():
                return found
