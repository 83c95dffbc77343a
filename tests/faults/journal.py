"""What happened in a run, on record wherever the process that did it ends."""

import json
import os


class Journal:
    """Entries in memory, for processes that end by an exception only."""

    def __init__(self):
        self._entries = []

    def note(self, *entry):
        """Write one entry."""
        self._entries.append(list(entry))

    def entries(self, kind=None):
        """Return the entries of a kind, without it; or all."""
        return [entry[1:] for entry in self._entries if entry[0] == kind] if kind else list(self._entries)

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
