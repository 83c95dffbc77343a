"""What a person does about what is parked: audited before the effect."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from shared.audit import AuditTable, Command
from shared.parked.entry import Entry, EntryState
from shared.parked.parked_table import ParkedTable
from shared.parked.replay import Fate, Pace, Replayer, Wave, chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which entries are meant; what is None selects nothing away."""

    fingerprint: str | None = None
    job: str | None = None
    key: str | None = None
    reason: str | None = None

    def takes(self, entry: Entry) -> bool:
        """Whether the entry is meant."""
        wanted = {"fingerprint": self.fingerprint, "job": self.job, "key": self.key, "reason": self.reason}
        return all(value is None or getattr(entry, name) == value for name, value in wanted.items())

    def __str__(self) -> str:
        named = [self.fingerprint, self.reason, self.job, self.key]
        return " ".join(name for name in named if name is not None) or "everything"


class ParkedOperator:
    """Replays and discards for a person."""

    def __init__(self, table: ParkedTable, replayer: Replayer, audit: AuditTable) -> None:
        self._table, self._replayer, self._audit = table, replayer, audit

    def selected(self, selection: Selection, *, closed: bool = False) -> list[Entry]:
        """Return the entries that are meant."""
        return [entry for entry in self._table.entries(selection.job, closed=closed) if selection.takes(entry)]

    def replay(self, selection: Selection, pace: Pace, *, by: str, why: str = "") -> Iterator[Wave]:
        """Replay in waves and yield each; nothing happens before the first is asked for."""
        entries = self.selected(selection)
        details = {"entries": str(len(chosen(entries, pace)))}
        with self._audit.recorded(Command(by, "parked replay", str(selection), why, details)) as command:
            done: list[Wave] = []
            for wave in self._replayer.replay(entries, pace):
                done.append(wave)
                command.result = told(done)
                yield wave
            command.result = told(done)

    def discard(self, selection: Selection, *, by: str, why: str) -> list[Entry]:
        """Close the entries for good, and return those that were; their rows stay, with the reason."""
        if not why.strip():
            raise ValueError("discarding needs a reason: say why nobody needs it")
        entries = self.selected(selection)
        command = Command(by, "parked discard", str(selection), why, {"entries": str(len(entries))})
        with self._audit.recorded(command) as recorded:
            note = f"{by}: {why}"
            closed = [
                changed
                for entry in entries
                if (changed := self._table.change(entry, replace(entry, state=EntryState.DISCARDED, note=note)))
            ]
            recorded.result = f"done: {len(closed)} of {len(entries)} discarded"
        return closed


def told(waves: Sequence[Wave]) -> str:
    """Say what became of the entries of some waves."""
    counts = {fate: sum(wave.count(fate) for wave in waves) for fate in Fate}
    return ", ".join(f"{count} {fate.value}" for fate, count in counts.items() if count) or "nothing to replay"
