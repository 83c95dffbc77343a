"""Builds what reads the lines of parked entries: only pages and commands need it."""

from shared.app.stores import Stores
from shared.memory import Memory
from shared.operating import EntryReader
from shared.payload import WORK, PayloadReader, PayloadStores


def build_entry_reader(stores: Stores) -> EntryReader:
    """Return a reader with memory of its own."""
    read = PayloadReader(PayloadStores(stores.container), Memory(WORK))
    return EntryReader(table=stores.parked_table, read=read, audit=stores.audit)
