"""Reads the transactions of a parked entry for a person. They are other people's data, so the audit names each reader."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

from shared.errors import RefusedError
from shared.messages import ChunkMessage
from shared.operating.audit import ActKey, AuditedAct, AuditTable
from shared.parked import Entry, ParkedTable, read_message
from shared.payload import ReadChunk

#: Lines that a page shows, and characters of a line.
MOST_LINES: Final = 50
LONGEST_LINE: Final = 2_000


@dataclass(frozen=True, slots=True)
class EntryLines:
    """Lines of an entry, from the one that failed if that is known."""

    lines: Sequence[str]
    #: The id of the first of them. None: its job has no ids, or the entry is no chunk.
    first: int | None = None
    #: Whether there are more behind, or characters of a line are left out.
    is_cut: bool = False
    #: Why the transactions cannot be read. Then the lines are those of the message itself.
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryReader:
    """Reads the lines of parked entries. One per process."""

    table: ParkedTable
    read: ReadChunk
    audit: AuditTable

    def read_lines(self, entry: Entry, most: int, *, by: str, why: str, named: ActKey | None = None) -> EntryLines:
        """Return the first lines, after the act was recorded. Two requests, and two for the audit."""
        command = AuditedAct(by, "parked lines", f"{entry.job} {entry.key}", why)
        with self.audit.record(command, named) as recorded:
            found = self._find_lines(entry, most)
            recorded.result = f"shown: {len(found.lines)} lines"
        return found

    def _find_lines(self, entry: Entry, most: int) -> EntryLines:
        body = self.table.body(entry)
        message, problem = read_message(body), ""
        if isinstance(message, ChunkMessage):
            # The transaction that failed comes first: a chunk may have thousands before it.
            skip = 0 if entry.failed_item is None else max(0, entry.failed_item - message.first_id)
            try:
                with self.read(message) as parts:
                    return _cut(chain.from_iterable(parts), skip, most, message.first_id + skip)
            except RefusedError as error:
                problem = str(error)
        return _cut(iter(body.split(b"\n")), 0, most, None, problem)


def _cut(lines: Iterator[bytes], skip: int, most: int, first: int | None, problem: str = "") -> EntryLines:
    taken = [line.decode(errors="replace") for line in islice(lines, skip, skip + most + 1)]
    is_cut = len(taken) > most or any(len(line) > LONGEST_LINE for line in taken)
    return EntryLines([line[:LONGEST_LINE] for line in taken[:most]], first, is_cut, problem)
