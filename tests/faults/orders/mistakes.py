"""Mistakes that somebody could make in registration: what the code would be, put in the place of the real one."""

from copy import copy
from dataclasses import replace

from shared.gate.held_work import HeldWork
from shared.gate.rolls import Rolls, make_roll, place_of
from shared.processes.mementos import Mementos
from shared.processes.runtime import Runtime, _rows
from shared.processes.table_homes import TableHomes
from shared.readmodels.projection import Folded

_commit, _read, _keep = TableHomes.commit, Mementos.read, Mementos.keep
_note, _store, _send_held = Runtime._note, Runtime._store, HeldWork.send
_make, _batches = Rolls._make, Rolls.batches


def send_before_storing(self, notes, draft):
    """Send what follows from a home, then write it."""
    if draft.commit:
        self._outgoing.send([draft.unsent])
    return _store(self, notes, draft)


def note_after_storing(self, notes, draft):
    """Write a home, then the note that leads to it; its timeouts before it, as is right."""
    stored = _store(self, notes, draft)
    if stored.commit:
        notes += _note(self, [replace(stored, timeouts=())])
    return stored


def write_no_note(self, drafts):
    """Write the timeouts and aliases of homes, and no note. Its reminder is sent, so that the fault falls where it is meant."""
    rows = _noted(self, drafts)
    self._agenda.write([row for row in rows if not hasattr(row, "homes")])
    for due in {row.due for row in rows if hasattr(row, "homes")}:
        self._remind(due)
    return []


def _noted(self, drafts):
    written = []

    class Kept:
        write = staticmethod(lambda rows: written.extend(rows) or [])

    other = copy(self)
    other._agenda = Kept
    _note(other, drafts)
    return written


def remove_before_sending(self, notes, draft):
    """Write a home and remove the note, then send."""
    stored = _store(self, notes, draft)
    if stored.commit:
        self._agenda.remove(notes)
    return stored


def time_after_storing(self, notes, draft):
    """Write a home, then the rows of its timeouts."""
    stored = _store(self, notes, draft)
    if stored.commit:
        self._agenda.write(list(_rows(stored, stored.timeouts)))
    return stored


def note_without_timeouts(self, drafts):
    """Write the notes of homes without their timeouts."""
    return _note(self, [replace(draft, timeouts=()) for draft in drafts])


def say_published(self, commit):
    """Write in the head that all is published, before it is sent."""
    return _commit(self, replace(commit, published=commit.expected + len(commit.events)))


def store_halves(self, commit):
    """Write the first event of a decision, then the others with the state."""
    if len(commit.events) == 1:
        return _commit(self, commit)
    first, others = commit.events[:1], commit.events[1:]
    head = _commit(self, replace(commit, events=first, process=None, inbox={}))
    return _commit(self, replace(commit, events=others, expected=head.version, fields=None))


def keep_warm(self, warm):
    """Keep a state beside the one that goes on."""
    _keep(self, warm)
    self.kept = {**getattr(self, "kept", {}), warm.key: copy(warm)}


def read_kept(self, key):
    """Return the state that was kept, whatever another writer has stored since."""
    kept = getattr(self, "kept", {}).get(key)
    return copy(kept) if kept else _read(self, key)


def drop_by_first(projection, before, ranges):
    """Drop a range that begins with what was seen, whatever it ends with."""
    seen, view = before.seen, before.view
    for one in sorted(ranges, key=lambda one: (one.first, one.last)):
        if projection.is_ordered and one.first > seen + 1:
            return Folded(seen, view, is_gap=True)
        if one.first <= seen:
            continue
        for event in one.events:
            view = projection.fold(view, event) if event.is_public else view
        seen = one.last
    return Folded(seen, view)


def forget_before_sending(self, entries):
    """Delete held rows, then send their starts."""
    self.forget_all(entries)
    _send_held(self, entries)


def make_a_roll_before_its_pointer(self, gate, state, entries):
    """Write a roll, then the pointer by which it goes."""
    entries = list(entries)
    roll = make_roll(gate, state, [place_of(entry) for entry in entries])
    self._store_of(gate, state.epoch).try_write(roll.content, None)
    return _make(self, gate, state, entries)


def send_by_id(self, gate, state, known, on_page):
    """Make the roll, and send the orders by their ids."""
    for before, batch in _batches(self, gate, state, known, on_page):
        yield before, sorted(batch, key=lambda entry: entry.id)
