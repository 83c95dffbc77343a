"""A person's acts on parked entries, audited before the effect.

Reads the transactions of a parked entry for a person. They are other people's data, so the audit names each reader.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import chain, islice
from math import inf
from typing import Final, NamedTuple

from shared.clock import Clock, all_tried
from shared.concurrency import FleetTable
from shared.errors import (
    ActStaleError,
    ContentionError,
    JobStateError,
    NotParkedError,
    RefusedError,
    StorageUnavailableError,
)
from shared.grammar import NAME, room_job
from shared.ledger import Ledger
from shared.messages import ChunkMessage
from shared.operating.audit import ActKey, AuditedAct, AuditTable
from shared.operating.prefixes import complete_prefix
from shared.operating.replay import Replayer, ReplayPace, Selection, choose, digest_entries
from shared.operating.replay_record import (
    LOOK,
    Replay,
    ReplayRun,
    ReplayTable,
    describe_fates,
    draw_owner,
    name_replay,
    stop,
)
from shared.parked import (
    MOST_TOGETHER,
    NO_JOB,
    CauseIndex,
    Entry,
    OverFile,
    Overflow,
    OverLine,
    ParkedTable,
    files_in_words,
    is_nameless,
    read_message,
)
from shared.payload import ReadChunk
from shared.pending import REPLAY_POINTER, Pending, Pointer
from shared.pipeline import ResultStore, find_done, read_parked
from shared.topology import room_of_queue
from shared.watch import Need, NeedKind, WatchTable, cut_found

#: A pointer that has no row by then never gets one.
ROW_WITHIN: Final = timedelta(minutes=5)
#: How long a replay that stopped needs a person, without another one.
_STOPPED_FOR: Final = timedelta(days=1)
#: Attempts to write that a replay is to stop. Its owner writes it about once a second at most.
_ATTEMPTS: Final = 10


class Discarded(NamedTuple):
    """How many entries were discarded, of how many, and whether all of these were tried."""

    closed: int
    number: int
    is_whole: bool


class _Groups(NamedTuple):
    """The open entries of a selection, as they are closed."""

    selection: Selection
    number: int
    groups: Iterator[Sequence[Entry]]


@dataclass(kw_only=True)
class ParkedOperator:
    """Replays and discards for a person, and steps replays."""

    table: ParkedTable
    causes: CauseIndex
    overflow: Overflow
    replays: ReplayTable
    pending: Pending
    audit: AuditTable
    replayer: Replayer
    fleet: FleetTable
    clock: Clock
    pause: Callable[[float], object]
    #: Hears of replays that stop by themselves. None: it is not noted.
    watch: WatchTable | None = None
    #: The name under which it steps replays.
    owner: str = field(default_factory=lambda: draw_owner("command"))

    def select(self, selection: Selection, *, closed: bool = False) -> list[Entry]:
        """Return the entries that match."""
        return self._find(selection, closed=closed)[1]

    def _find(self, selection: Selection, *, closed: bool = False) -> tuple[Selection, list[Entry]]:
        found = list(self.table.entries(selection.job, closed=closed))
        if selection.job is not None:
            found += self.table.claiming(selection.job, closed=closed)
        whole = selection.complete(found)
        return whole, whole.select(found)

    def _find_as_seen(self, selection: Selection, seen: str | None) -> tuple[Selection, list[Entry]]:
        whole, entries = self._find(selection)
        if seen is not None and digest_entries(entries) != seen:
            raise ActStaleError(f"what is parked of {whole} has changed since you saw it: nothing was done")
        return whole, entries

    def show(self, job: str, key: str) -> Entry:
        """Return the entry with this key, or the only one of the job whose key begins with it, or raise NotParkedError."""
        try:
            return self.table.about(job, key)
        except NotParkedError:
            found = self.select(Selection(job=job, key=key), closed=True)
            if not found:
                raise
            return found[0]

    def body(self, entry: Entry) -> bytes:
        """Return the original bytes of an entry."""
        return self.table.body(entry)

    def name(self, entry: Entry, job: str, *, by: str, why: str = "") -> Entry:
        """Set the job id of a parked submission without one. It cannot be changed later, or there could be two jobs."""
        # Either the publisher's name of the job, or the internal one with the room that the message came from.
        room = room_of_queue(entry.queue)
        name = job.removeprefix(room_job(room, ""))
        if not NAME.fullmatch(name):
            raise ValueError(
                f"no job of queue {entry.queue!r} can be called {job[:120]!r}: use 1 to 100 of a-z 0-9 . _ -"
            )
        if entry.about != NO_JOB or not is_nameless(self.table.body(entry)):
            raise ValueError(f"parked {entry.key!r} belongs to job {entry.about!r} and takes no other id")
        command = AuditedAct(by, "parked name", str(Selection(key=entry.key)), why, {"job": job})
        with self.audit.record(command) as recorded:
            changed = self.table.change(entry, replace(entry, claimed=room_job(room, name)))
            if changed is None:
                raise ContentionError(
                    f"parked {entry.key!r} was changed by another process meanwhile: read it again, then repeat"
                )
            recorded.result = f"done: it is job {job}"
        return changed

    def ask_replay(  # noqa: PLR0913 - the act, and what its person saw
        self,
        selection: Selection,
        pace: ReplayPace,
        *,
        by: str,
        why: str = "",
        seen: str | None = None,
        named: ActKey | None = None,
    ) -> Replay:
        """Write the row of a replay that any process may step. `seen`, `named`: as for `discard`.

        Raise JobStateError if all entries are of one job that was stopped.
        """
        selection, entries = self._find_as_seen(selection, seen)
        chosen, now = choose(entries, pace), self.clock.now()
        if refused := self.replayer.refuse(chosen):
            raise JobStateError(f"could not replay {selection}: {refused}")
        replay = Replay(
            id=name_replay(named.at if named else now, named.nonce if named else secrets.token_hex(4)),
            who=by,
            why=why,
            asked_at=now,
            selection=selection.outlast(entries),
            pace=pace,
            entries=len(chosen),
            moved_at=now,
        )
        details = {"entries": str(replay.entries), "replay": replay.id}
        with self.audit.record(AuditedAct(by, "parked replay", str(selection), why, details), named) as command:
            # The pointer first: a row without it would wait for a person.
            self.pending.add(Pointer(REPLAY_POINTER, now, replay.id))
            asked = self.replays.insert(replay)
            self._forget_stopped(selection, now)
            command.result = f"asked: `sluice parked replays` has what came of it, as {replay.id}"
        return asked

    def _forget_stopped(self, selection: Selection, now: datetime) -> None:
        """End the need that a former replay of the cause left. Without an answer it ends after a day."""
        if self.watch is not None and selection.fingerprint:
            with suppress(StorageUnavailableError):
                self.watch.end(NeedKind.REPLAY_STOPPED, selection.fingerprint, now)

    def replay(self, selection: Selection, pace: ReplayPace, *, by: str, why: str = "") -> Iterator[Replay]:
        """Write a replay and step it to its end. Yield it after each part of a step."""
        yield from self.follow(self.ask_replay(selection, pace, by=by, why=why))

    def follow(self, replay: Replay) -> Iterator[Replay]:
        """Step a replay to its end, or look on while another process does. Yield it after each part."""
        while not replay.is_over:
            for known in self.run.steps(replay):
                replay = known
                yield replay
            if not replay.is_over:
                self.pause(LOOK)
                replay = self.replays.get(replay.id)
                yield replay

    def follow_due(self, pointers: Iterable[Pointer], seconds: float) -> None:
        """Step the replays that these pointers lead to, for so long. A pointer goes after its replay has ended."""
        until = self.clock.monotonic() + seconds
        all_tried((partial(self._follow_one, pointer, until) for pointer in pointers), lambda _error: None)

    def _follow_one(self, pointer: Pointer, until: float) -> None:
        if self.clock.monotonic() >= until:
            return
        replay = self.replays.find(pointer.id)
        if replay is None:
            is_over = self.clock.now() - pointer.due > ROW_WITHIN
        else:
            is_over = self.run.step(replay, until).is_over
        if is_over:
            self.pending.remove(pointer)

    @property
    def run(self) -> ReplayRun:
        """Steps replays as this operator."""
        return ReplayRun(
            table=self.replays,
            replayer=self.replayer,
            find=self.select,
            window=self._read_window,
            clock=self.clock,
            pause=self.pause,
            owner=self.owner,
            note_stopped=self._note_stopped,
        )

    def _read_window(self) -> int | None:
        feed = self.fleet.read().living_feed(self.clock.now())
        return feed.window if feed and feed.chunks else None

    def _note_stopped(self, replay: Replay, now: datetime) -> None:
        if self.watch is not None:
            about, said = replay.selection.fingerprint or replay.id, describe_fates(replay.counts)
            found = cut_found(f"replay {replay.id} stopped after {replay.taken:,} of {replay.entries:,}: {said}")
            self.watch.begin(Need(NeedKind.REPLAY_STOPPED, about, found, now, is_grave=False, until=now + _STOPPED_FOR))

    def stop_replay(self, replay: str, *, by: str, why: str = "", named: ActKey | None = None) -> Replay:
        """Have a replay stop: its next step ends it. What is on its queue stays there."""
        found = self.replays.get(replay)
        with self.audit.record(AuditedAct(by, "parked replay stop", found.id, why), named) as command:
            for _ in range(_ATTEMPTS):
                stopped = stop(found, by, self.clock.now())
                written = found if stopped is found else self.replays.change(stopped)
                if written is not None:
                    command.result = f"done: {written.state}"
                    return written
                found = self.replays.get(replay)
            raise ContentionError(f"replay {replay} was written by others {_ATTEMPTS} times: repeat the stop")

    def count(self, selection: Selection) -> int:
        """Return how many open entries match. One request for a selection by cause or reason."""
        return self._find_groups(selection, None).number

    def discard(  # noqa: PLR0913 - the act, what its person saw, and how long it may take
        self,
        selection: Selection,
        *,
        by: str,
        why: str,
        seen: str | None = None,
        named: ActKey | None = None,
        report: Callable[[int], object] = lambda _closed: None,
        seconds: float = inf,
    ) -> Discarded:
        """Close the entries for good, some at a time. Their rows stay, with the reason. It may be stopped and repeated.

        `seen`: only if the selection has this digest, else raise ActStaleError. `named`: see AuditTable.record. `report`
        hears how many are closed so far. After the `seconds` it begins with no others.
        """
        if not why.strip():
            raise ValueError("discarding needs a reason: say why the message is not needed any more")
        found = self._find_groups(selection, seen)
        command = AuditedAct(by, "parked discard", str(found.selection), why, {"entries": str(found.number)})
        closed, is_whole, until = 0, True, self.clock.monotonic() + seconds
        with self.audit.record(command, named) as recorded:
            for entries in found.groups:
                if not (is_whole := self.clock.monotonic() < until):
                    break
                closed += self.table.discard(
                    [entry for entry in entries if found.selection.takes(entry)], f"{by}: {why}"
                )
                # Also the row of an act that is stopped has it.
                recorded.details["discarded"] = str(closed)
                report(closed)
            recorded.result = f"done: {closed} of {found.number} discarded"
        return Discarded(closed, found.number, is_whole)

    def _find_groups(self, selection: Selection, seen: str | None) -> _Groups:
        """Find what matches: by the members of its causes, unless it was seen, or is of a job, or these have none."""
        if seen is None and (selection.job, selection.key) == (None, None):
            causes = self.causes.read().causes
            prints = (cause.fingerprint for cause in causes)
            if selection.fingerprint is not None:
                selection = replace(
                    selection, fingerprint=complete_prefix(selection.fingerprint, prints, "fingerprints")
                )
            chosen = [cause for cause in causes if selection.takes_cause(cause)]
            if number := sum(cause.open for cause in chosen):
                groups = (self.table.read_members(cause.fingerprint) for cause in chosen)
                return _Groups(selection, number, chain.from_iterable(groups))
        selection, entries = self._find_as_seen(selection, seen)
        begins = range(0, len(entries), MOST_TOGETHER)
        return _Groups(selection, len(entries), (entries[begin : begin + MOST_TOGETHER] for begin in begins))

    def list_files(self, fingerprint: str, room: str | None = None) -> list[OverFile]:
        """Return the files of a cause above the bound at the door, of one room or of all. Its beginning is enough."""
        files = self.causes.list_files()
        whole = complete_prefix(fingerprint, (file.sums.fingerprint for file in files), "causes")
        return [file for file in files if file.sums.fingerprint == whole and room in {None, file.room}]

    def export(self, files: Sequence[OverFile], *, by: str, why: str) -> Iterator[OverLine]:
        """Yield the messages of these files, after the act was recorded: they are other people's data."""
        with self.audit.record(AuditedAct(by, "parked export", _name_files(files), why)) as recorded:
            number = 0
            for file in files:
                for line in self.overflow.read(file).messages():
                    number += 1
                    yield line
            recorded.result = f"shown: {number} messages"

    def readmit(self, files: Sequence[OverFile], *, by: str, why: str) -> Iterator[OverLine]:
        """Put the messages of these files back on their queue, and remove each file after its messages. Yield each.

        A message that is put twice counts once. If its cause is still there, it is parked again.
        """
        with self.audit.record(AuditedAct(by, "parked readmit", _name_files(files), why)) as recorded:
            number = 0
            for file in files:
                put = set[str]()
                while True:
                    read = self.overflow.read(file)
                    for line in read.messages():
                        if line.key in put:
                            continue
                        self._put_back(line)
                        put.add(line.key)
                        number += 1
                        yield line
                    # Its process may have written more to it meanwhile.
                    if self.overflow.remove(read):
                        break
            recorded.result = f"done: {number} messages"

    def _put_back(self, line: OverLine) -> None:
        try:
            self.replayer.put_back(line.entry, line.body)
        except NotParkedError:
            # It needs a person: who names its job, or sends it again with less in it.
            self.table.park(line.entry, line.body)

    def discard_files(self, files: Sequence[OverFile], *, by: str, why: str) -> None:
        """Remove these files for good. What their process adds meanwhile goes with them: it has the same cause."""
        with self.audit.record(AuditedAct(by, "parked discard", _name_files(files), why)) as recorded:
            for file in files:
                self.overflow.discard(file)
            recorded.result = f"done: {sum(file.sums.over for file in files)} messages"


def _name_files(files: Sequence[OverFile]) -> str:
    causes = ", ".join(sorted({file.sums.fingerprint for file in files}))
    rooms = ", ".join(sorted({file.room or "the common room" for file in files}))
    return f"{files_in_words(len(files))} of cause {causes}, of {rooms}"


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
    ledger: Ledger
    results: ResultStore
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
        if isinstance(message, ChunkMessage) and message.aside:
            return self._find_aside(message, most)
        if isinstance(message, ChunkMessage):
            # The transaction that failed comes first: a chunk may have thousands before it.
            skip = 0 if entry.failed_item is None else max(0, entry.failed_item - message.first_id)
            try:
                with self.read(message) as parts:
                    return _cut(chain.from_iterable(parts), skip, most, message.first_id + skip)
            except RefusedError as error:
                problem = str(error)
        return _cut(iter(body.split(b"\n")), 0, most, None, problem)

    def _find_aside(self, message: ChunkMessage, most: int) -> EntryLines:
        """Return the transactions that the credited result lists: the others of its chunk are no person's business."""
        row = find_done(self.ledger, message.job, message.chunk, message.revision)
        if row is None:
            return EntryLines((), problem="its chunk is not credited yet: read them again in a minute")
        if row.revision > message.revision:
            return EntryLines((), problem=f"its job ran again at revision {row.revision}: they are kept no more")
        return _cut((line.rstrip(b"\n") for line in read_parked(self.results.open(row))), 0, most)


def _cut(lines: Iterator[bytes], skip: int, most: int, first: int | None = None, problem: str = "") -> EntryLines:
    taken = [line.decode(errors="replace") for line in islice(lines, skip, skip + most + 1)]
    is_cut = len(taken) > most or any(len(line) > LONGEST_LINE for line in taken)
    return EntryLines([line[:LONGEST_LINE] for line in taken[:most]], first, is_cut, problem)
