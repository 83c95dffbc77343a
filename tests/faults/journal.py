"""What happened in a run, on record wherever the process that did it ends."""

import json
import os
from collections import defaultdict


class Journal:
    """Entries in memory, for processes that end by an exception only."""

    def __init__(self):
        self._entries = []
        #: The entries by their kind, up to so many of this list: a run reads them again and again.
        self._sorted, self._read_of, self._known = defaultdict(list), self._entries, 0

    def note(self, *entry):
        """Write one entry."""
        self._entries.append(list(entry))

    def entries(self, kind=None):
        """Return the entries of a kind, without it; or all."""
        return list(self._by_kind()[kind]) if kind else list(self._entries)

    def _by_kind(self):
        if self._read_of is not self._entries:
            self._sorted, self._read_of, self._known = defaultdict(list), self._entries, 0
        # Other threads may note more meanwhile.
        new = self._entries[self._known :]
        for entry in new:
            self._sorted[entry[0]].append(entry[1:])
        self._known += len(new)
        return self._sorted

    def close(self):
        """Nothing to close."""


class FileJournal(Journal):
    """Entries in a file that a forked child writes too: each is there before the next request is sent."""

    def __init__(self, path):
        super().__init__()
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC)
        self._read = 0

    def note(self, *entry):
        """Write one entry, at once."""
        os.write(self._file, json.dumps(entry).encode() + b"\n")

    def entries(self, kind=None):
        """Return what this process and its children have written."""
        while piece := os.pread(self._file, 1 << 20, self._read):
            whole = piece[: piece.rindex(b"\n") + 1]
            self._entries += [json.loads(line) for line in whole.splitlines()]
            self._read += len(whole)
        return super().entries(kind)

    def close(self):
        """Close the file."""
        os.close(self._file)
