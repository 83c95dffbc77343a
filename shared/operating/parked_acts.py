"""A person's acts on parked entries, audited before the effect."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import chain

from shared.errors import ActStaleError, ContentionError, NotParkedError
from shared.grammar import NAME, room_job
from shared.operating.audit import ActKey, AuditedAct, AuditTable
from shared.operating.grouping import group_by_cause
from shared.operating.prefixes import complete_prefix
from shared.operating.replay import Replayer, ReplayFate, ReplayPace, Wave, choose
from shared.parked import NO_JOB, Entry, EntryState, ParkedTable, is_nameless
from shared.topology import room_of_queue


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


class ParkedOperator:
    """Replays and discards for a person."""

    def __init__(self, table: ParkedTable, replayer: Replayer, audit: AuditTable) -> None:
        self._table, self._replayer, self._audit = table, replayer, audit

    def select(self, selection: Selection, *, closed: bool = False) -> list[Entry]:
        """Return the entries that match."""
        return self._find(selection, closed=closed)[1]

    def _find(self, selection: Selection, *, closed: bool = False) -> tuple[Selection, list[Entry]]:
        found = list(self._table.entries(selection.job, closed=closed))
        if selection.job is not None:
            found += self._table.claiming(selection.job, closed=closed)
        whole = selection.complete(found)
        return whole, whole.select(found)

    def show(self, job: str, key: str) -> Entry:
        """Return the entry with this key, or the only one of the job whose key begins with it, or raise NotParkedError."""
        try:
            return self._table.about(job, key)
        except NotParkedError:
            found = self.select(Selection(job=job, key=key), closed=True)
            if not found:
                raise
            return found[0]

    def body(self, entry: Entry) -> bytes:
        """Return the original bytes of an entry."""
        return self._table.body(entry)

    def name(self, entry: Entry, job: str, *, by: str, why: str = "") -> Entry:
        """Set the job id of a parked submission without one. It cannot be changed later, or there could be two jobs."""
        # Either the publisher's name of the job, or the internal one with the room that the message came from.
        room = room_of_queue(entry.queue)
        name = job.removeprefix(room_job(room, ""))
        if not NAME.fullmatch(name):
            raise ValueError(
                f"no job of queue {entry.queue!r} can be called {job[:120]!r}: use 1 to 100 of a-z 0-9 . _ -"
            )
        if entry.about != NO_JOB or not is_nameless(self._table.body(entry)):
            raise ValueError(f"parked {entry.key!r} belongs to job {entry.about!r} and takes no other id")
        command = AuditedAct(by, "parked name", str(Selection(key=entry.key)), why, {"job": job})
        with self._audit.record(command) as recorded:
            changed = self._table.change(entry, replace(entry, claimed=room_job(room, name)))
            if changed is None:
                raise ContentionError(
                    f"parked {entry.key!r} was changed by another process meanwhile: read it again, then repeat"
                )
            recorded.result = f"done: it is job {job}"
        return changed

    def replay(self, selection: Selection, pace: ReplayPace, *, by: str, why: str = "") -> Iterator[Wave]:
        """Replay in waves and yield each. Nothing happens before the caller takes the first wave."""
        selection, entries = self._find(selection)
        details = {"entries": str(len(choose(entries, pace)))}
        with self._audit.record(AuditedAct(by, "parked replay", str(selection), why, details)) as command:
            done: list[Wave] = []
            for wave in self._replayer.replay(entries, pace):
                done.append(wave)
                command.result = describe_fault(done)
                yield wave
            command.result = describe_fault(done)

    def discard(
        self, selection: Selection, *, by: str, why: str, seen: str | None = None, named: ActKey | None = None
    ) -> list[Entry]:
        """Close the entries for good, and return the closed ones. Their rows stay, with the reason.

        `seen`: only if the selection has this digest, else raise ActStaleError. `named`: see AuditTable.record.
        """
        if not why.strip():
            raise ValueError("discarding needs a reason: say why the message is not needed any more")
        selection, entries = self._find(selection)
        if seen is not None and digest_entries(entries) != seen:
            raise ActStaleError(f"what is parked of {selection} has changed since you saw it: nothing was done")
        command = AuditedAct(by, "parked discard", str(selection), why, {"entries": str(len(entries))})
        with self._audit.record(command, named) as recorded:
            note = f"{by}: {why}"
            closed = [
                changed
                for entry in entries
                if (changed := self._table.change(entry, replace(entry, state=EntryState.DISCARDED, note=note)))
            ]
            recorded.result = f"done: {len(closed)} of {len(entries)} discarded"
        return closed


def digest_entries(entries: Iterable[Entry]) -> str:
    """Return a text that is another one as soon as an entry comes, goes or changes."""
    lines = sorted(f"{entry.job}|{entry.key}|{entry.etag}" for entry in entries)
    return sha256("\n".join(lines).encode()).hexdigest()


def describe_fault(waves: Sequence[Wave]) -> str:
    """Return the number of entries by fate, as text."""
    counts = {fate: sum(wave.count(fate) for wave in waves) for fate in ReplayFate}
    return ", ".join(f"{count} {fate.value}" for fate, count in counts.items() if count) or "nothing to replay"
