"""Selections of parked entries: a filter, and the digest of the entries that it finds. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import chain

from shared.operating.grouping import group_by_cause
from shared.operating.prefixes import complete_prefix
from shared.parked import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A filter of entries. A field that is None selects all."""

    fingerprint: str | None = None
    job: str | None = None
    key: str | None = None
    reason: str | None = None

    def takes(self, entry: Entry) -> bool:
        """Return whether the entry matches in all but its cause, which depends on the other entries."""
        wanted = {"key": self.key, "reason": self.reason}
        is_of_job = self.job is None or self.job in {entry.job, entry.claimed}
        return is_of_job and all(value is None or getattr(entry, name) == value for name, value in wanted.items())

    def complete(self, entries: Sequence[Entry]) -> "Selection":
        """Return the selection with the whole fingerprint and the whole key where only their beginnings were typed."""
        fingerprint, key = self.fingerprint, self.key
        if fingerprint is not None:
            fingerprint = complete_prefix(fingerprint, (entry.fingerprint for entry in entries), "fingerprints")
        if key is not None:
            key = complete_prefix(key, (entry.key for entry in entries), "keys")
        return replace(self, fingerprint=fingerprint, key=key)

    def outlast(self, chosen: Sequence[Entry]) -> "Selection":
        """Return a selection that still means all of these when the first of them are closed.

        Entries of an older scheme are one cause by their reason. Each may have a fingerprint of its own.
        """
        if self.fingerprint is None or all(entry.scheme is not None for entry in chosen):
            return self
        return replace(self, fingerprint=None, reason=chosen[0].reason)

    def select(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return the entries that match. A fingerprint stands for all entries listed with it as one cause."""
        if self.fingerprint is None:
            return [entry for entry in entries if self.takes(entry)]
        causes = group_by_cause(list(entries))
        matching = [cause for cause in causes if any(entry.fingerprint == self.fingerprint for entry in cause)]
        return [entry for entry in chain.from_iterable(matching) if self.takes(entry)]

    def __str__(self) -> str:
        named = [self.fingerprint, self.reason, self.job, self.key]
        return " ".join(name for name in named if name is not None) or "everything"


def digest_entries(entries: Iterable[Entry]) -> str:
    """Return a text that is another one as soon as an entry comes, goes or changes."""
    lines = sorted(f"{entry.job}|{entry.key}|{entry.etag}" for entry in entries)
    return sha256("\n".join(lines).encode()).hexdigest()
