"""Runs a chunk in a process of its own: a suspect, whose deliveries began and never ended.

What ends that process ends nothing else. The child reads the chunk from a file and answers into another. It makes no
request but those of the workload. On a board, which outlasts it, it notes each call before it begins. So this process
knows the transaction that the child died of, or stood still at.

The transaction that a child died of has failed, and the next child runs the others. If a child died of several at once, the
next one runs them one after the other. The third death is that of the whole chunk.

One child runs at a time. A second suspect is delivered again. If its calls have limits, the child asks this process for each
turn, by a pipe.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from mmap import mmap
from pathlib import Path, PurePath
from signal import Signals
from struct import Struct as Form
from tempfile import TemporaryFile
from threading import Lock, Thread
from typing import IO, Final, cast

from msgspec import Raw, Struct, json, structs

from shared.clock import Clock, SystemClock
from shared.errors import NoSlotError, NotCalledError, NotStartedError, SluiceError
from shared.messages import NO_PORTION, PortionMessage
from shared.parked import (
    DEFAULT_POLICY,
    FailedAlone,
    FailedAloneError,
    KillerError,
    PoisonPolicy,
    StandstillError,
    item_of,
    note_item,
)
from shared.payload import Limits
from shared.pipeline.failing.so_far import read_pieces
from shared.pipeline.outputs import Ran
from shared.pipeline.streams import Stream, StreamHead
from shared.versions import decode
from shared.workloads import AnyWorkload, Left, Loaded, Turns

#: Seconds more after which a child ends by itself.
_GRACE: Final = 30
#: Deaths of which the last is that of the whole chunk.
_MOST_DEATHS: Final = 3
#: Seconds until the child is looked at again.
_LOOK_EVERY: Final = 0.2
#: Frames of a dead child that are kept.
_FRAMES: Final = 5
#: Bytes of its last words that are read.
_WORDS: Final = 64 * 1024
_FRAME: Final = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)
_LENGTH: Final = Form("=q")


class Question(Struct, frozen=True, kw_only=True):
    """The work of a child. It comes by a pipe, for there are secrets in it, and the chunk in a file: a frame for each part."""

    #: The workloads of the app, as the setting names them, and all its settings.
    workloads: str
    settings: dict[str, str]
    workload: str
    first_number: int
    rejected_text_most: int
    makes_lines: bool
    #: The ids that run. None: all.
    left: list[int] | None = None
    #: Those of which a child died before.
    killed: list[int] = []
    #: Whether one runs after the other, so that the guilty one is known.
    is_in_turn: bool = False
    #: The pipes by which it requests a turn of its limits, and gets one. Empty: it has no limits.
    turns: tuple[int, ...] = ()
    #: When the child ends by itself, if the one that started it died.
    seconds: int


class RunAnswer(Struct, frozen=True, kw_only=True):
    """A run that ended, or its failure."""

    accepted: PortionMessage = PortionMessage()
    rejected: PortionMessage = PortionMessage()
    #: In JSON.
    partial: bytes = b""
    rejections: bytes = b""
    closely: int = 0
    #: The failures of single transactions, with their numbers and lines. Then those of them whose calls did not begin.
    left: list[tuple[int, FailedAlone, bytes]] = []
    uncalled: list[int] = []
    #: The number and sums of all these.
    portion: PortionMessage = NO_PORTION
    #: Partials in pieces, in JSON, by the first id.
    pieces: list[tuple[int, bytes]] | None = None
    #: The heads of the streams, and of the rows of lines. Their packed bytes follow this answer.
    streams: dict[str, StreamHead] = {}
    rows: dict[int, StreamHead] = {}
    failed: FailedAlone | None = None


class Board:
    """Where a child notes its calls: how many began or ended, and the transaction of the one that runs."""

    _FORM: Final = Form("=qq")
    NONE: Final = -1
    SIZE: Final = _FORM.size

    def __init__(self, descriptor: int) -> None:
        self._memory, self._calls = mmap(descriptor, self.SIZE), 0

    def note(self, number: int) -> None:
        """Note a call for this transaction, or, with NONE, one that is for none alone."""
        self._calls += 1
        self._FORM.pack_into(self._memory, 0, self._calls, number)

    def read(self) -> tuple[int, int]:
        """Return the calls so far, and the transaction."""
        calls, number = self._FORM.unpack_from(self._memory)
        return calls, number

    def close(self) -> None:
        """Free the memory."""
        self._memory.close()


def write_frame(file: IO[bytes], content: bytes) -> None:
    """Write bytes behind those before, with their length."""
    file.write(_LENGTH.pack(len(content)) + content)


def read_frames(file: IO[bytes]) -> Iterator[bytes]:
    """Yield what `write_frame` wrote."""
    while head := file.read(_LENGTH.size):
        yield file.read(*_LENGTH.unpack(head))


def instance_memory() -> int:
    """Return the bytes of memory that this instance has."""
    known = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    # It says "max" without a limit. Outside of a container there may be no such file.
    with suppress(OSError, ValueError):
        known.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(known)


class _Desk:
    """Gives turns to a child, in a thread, as it requests them. Without limits it has no pipes."""

    def __init__(self, turns: Turns | None) -> None:
        self._turns = turns
        self._asked, self._asks = (-1, -1) if turns is None else os.pipe()
        self._gets, self._given = (-1, -1) if turns is None else os.pipe()
        self._thread = Thread(target=self._give, daemon=True)
        #: The child waits for a turn.
        self.is_asked = False

    @property
    def pipes(self) -> tuple[int, ...]:
        """The child's ends: the one that it asks by, and the one that it gets turns by."""
        return () if self._turns is None else (self._asks, self._gets)

    def begin(self) -> None:
        """Leave the child's ends to the child."""
        if self._turns is not None:
            os.close(self._asks)
            os.close(self._gets)
            self._thread.start()

    def end(self) -> None:
        """Wait for the thread, which ends with the child."""
        if self._thread.ident is not None:
            self._thread.join()

    def _give(self) -> None:
        turns = cast("Turns", self._turns)
        # A child that died asks no more, and takes nothing.
        with (
            os.fdopen(self._asked, "rb", 0) as asked,
            os.fdopen(self._given, "wb", 0) as given,
            suppress(SluiceError, OSError),
        ):
            while asked.read(1):
                self.is_asked = True
                while not turns.begin():
                    turns.wait()
                self.is_asked = False
                given.write(b"!")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """Runs chunks in processes of their own, one at a time. The child loads the workloads by the same names and settings."""

    loaded: Loaded
    clock: Clock = field(default_factory=SystemClock)
    policy: PoisonPolicy = DEFAULT_POLICY
    #: Bytes of the instance. A child may have half of them, so that it dies before its neighbours.
    memory: Callable[[], int] = instance_memory
    _lock: Lock = field(default_factory=Lock)

    def __call__(  # noqa: PLR0913 - the chunk, its bounds, and what its message asks of its run
        self,
        workload: AnyWorkload,
        parts: Iterable[list[bytes]],
        first_number: int,
        limits: Limits,
        /,
        *,
        makes_lines: bool = False,
        turns: Turns | None = None,
        left: Collection[int] | None = None,
    ) -> Ran:
        """Run the lines of each part. An error of the run is raised here, and so is the end of its process."""
        if not self._lock.acquire(blocking=False):
            raise NoSlotError(
                "another chunk runs in a process of its own here; this one is delivered again",
                waits_for="a process of its own",
            )
        question = Question(
            workloads=self.loaded.setting,
            settings=dict(self.loaded.settings),
            workload=workload.name,
            first_number=first_number,
            rejected_text_most=limits.rejected_text_most,
            makes_lines=makes_lines,
            left=None if left is None else sorted(left),
            seconds=self.policy.alone_seconds + _GRACE,
        )
        try:
            with TemporaryFile() as chunk:
                for part in parts:
                    write_frame(chunk, b"\n".join(part))
                return self._run_all(workload, question, chunk, turns)
        finally:
            self._lock.release()

    def _run_all(self, workload: AnyWorkload, question: Question, chunk: IO[bytes], turns: Turns | None) -> Ran:
        """Run the chunk, without those of which a child dies."""
        began, killed = self.clock.monotonic(), dict[int, Exception]()
        for deaths in range(1, _MOST_DEATHS + 1):
            chunk.seek(0)
            try:
                answer, contents = self._run(structs.replace(question, killed=sorted(killed)), chunk, turns, began)
            except (KillerError, StandstillError) as error:
                number = item_of(error)
                is_over = self.clock.monotonic() - began > self.policy.alone_seconds
                if deaths == _MOST_DEATHS or is_over or (number is None and question.is_in_turn):
                    raise
                if number is None:
                    question = structs.replace(question, is_in_turn=True)
                else:
                    killed[number] = error
            else:
                return _to_ran(workload, answer, contents, killed)
        raise AssertionError("the last death was raised")

    def _run(
        self, question: Question, chunk: IO[bytes], turns: Turns | None, began: float
    ) -> tuple[RunAnswer, list[bytes]]:
        desk = _Desk(turns)
        with TemporaryFile() as answered, TemporaryFile() as said, TemporaryFile() as noted:
            noted.truncate(Board.SIZE)
            board = Board(noted.fileno())
            process = _start(chunk, answered, said, noted, desk.pipes)
            child = _Child(self, board, answered, said, process, desk, began)
            try:
                desk.begin()
                child.ask(structs.replace(question, turns=desk.pipes))
                child.wait()
            finally:
                child.process.kill()
                child.process.wait()
                desk.end()
                board.close()
            answered.seek(0)
            return _read_answer(answered)


def _start(
    chunk: IO[bytes], answered: IO[bytes], said: IO[bytes], noted: IO[bytes], pipes: tuple[int, ...]
) -> subprocess.Popen[bytes]:
    # The host has put folders on the path that no variable names. In the wheel the module has another name.
    module = f"{__name__}_child"
    code = (
        f"import sys; sys.path[:] = {sys.path!r}; from {module} import main; main({noted.fileno()}, {chunk.fileno()})"
    )
    return subprocess.Popen(  # noqa: S603 - this very interpreter
        [sys.executable, "-X", "faulthandler", "-c", code],
        stdin=subprocess.PIPE,
        stdout=answered,
        stderr=said,
        pass_fds=[noted.fileno(), chunk.fileno(), *pipes],
    )


@dataclass(frozen=True, slots=True)
class _Child:
    """A child that runs, and what is known of it."""

    alone: Alone
    board: Board
    answered: IO[bytes]
    said: IO[bytes]
    process: "subprocess.Popen[bytes]"
    desk: _Desk
    #: When the first child of this chunk began: all together have so many seconds.
    began: float

    def ask(self, question: Question) -> None:
        """Give it its work. One that has ended already is found by its end."""
        # Closing writes what is left.
        with suppress(BrokenPipeError), cast("IO[bytes]", self.process.stdin) as pipe:
            pipe.write(json.encode(question))

    def wait(self) -> None:
        """Return when it has answered. Raise how it ended otherwise, with the transaction."""
        try:
            self._wait()
        except (KillerError, StandstillError) as error:
            _, number = self.board.read()
            if number != Board.NONE:
                note_item(error, number)
            raise

    def _wait(self) -> None:
        alone, policy, most = self.alone, self.alone.policy, self.alone.memory() // 2
        began, moved, calls = self.began, alone.clock.monotonic(), 0
        while (status := self._poll()) is None:
            now, (noted, _) = alone.clock.monotonic(), self.board.read()
            if noted != calls or self.desk.is_asked:
                calls, moved = noted, now
            if calls and now - moved > policy.still_seconds:
                raise StandstillError(f"no call began or ended for {now - moved:.0f} s in a process of its own")
            if now - began > policy.alone_seconds:
                raise StandstillError(f"it had not ended after {now - began:.0f} s in a process of its own")
            if _memory_of(self.process.pid) > most:
                raise KillerError(f"it took more than {most >> 20} MiB in a process of its own")
        if status == 0 and self._has_answered():
            return
        how = f"{_name(status)} after {alone.clock.monotonic() - began:.1f} s in a process of its own"
        if not self.board.read()[0]:
            raise NotStartedError(f"the process of a suspect chunk ended before it ran anything: {how}")
        raise KillerError(how + self._last_place())

    def _poll(self) -> int | None:
        try:
            return self.process.wait(_LOOK_EVERY)
        except subprocess.TimeoutExpired:
            return None

    def _has_answered(self) -> bool:
        return os.fstat(self.answered.fileno()).st_size > 0

    def _last_place(self) -> str:
        """Return the place in the code that `faulthandler` named, the innermost function first."""
        self.said.seek(max(0, os.fstat(self.said.fileno()).st_size - _WORDS))
        words = self.said.read().decode(errors="replace")
        _, marked, trace = words.rpartition("Current thread ")
        if not marked:
            return ""
        frames = _FRAME.findall(trace.partition("\n\n")[0])[:_FRAMES]
        return ", at " + " < ".join(f"{PurePath(file).name}:{line} {name}" for file, line, name in frames)


def _name(status: int) -> str:
    return Signals(-status).name if status < 0 else f"exit status {status}"


def _memory_of(process: int) -> int:
    """Return the bytes that a process has in memory. 0: it has ended, or this system does not say."""
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _read_answer(answered: IO[bytes]) -> tuple[RunAnswer, list[bytes]]:
    """Return the answer, and the packed bytes of its streams and rows."""
    frames = read_frames(answered)
    answer = decode(next(frames), RunAnswer)
    if answer.failed is not None:
        raise FailedAloneError(answer.failed)
    return answer, list(frames)


def _to_ran(workload: AnyWorkload, answer: RunAnswer, contents: list[bytes], killed: Mapping[int, Exception]) -> Ran:
    each = iter(contents)
    streams = {name: Stream(head, BytesIO(next(each))) for name, head in answer.streams.items()}
    rows = {first: Stream(head, BytesIO(next(each))) for first, head in answer.rows.items()}
    errors: dict[int, Exception] = {number: FailedAloneError(failed) for number, failed, _ in answer.left}
    for number in answer.uncalled:
        errors[number] = NotCalledError(str(errors[number]), waits_for="the next delivery")
    return Ran(
        answer.accepted,
        answer.rejected,
        Raw(answer.partial),
        answer.rejections,
        streams,
        left=tuple(Left(number, killed.get(number, errors[number]), line) for number, _, line in answer.left),
        failed=answer.portion,
        closely=answer.closely,
        pieces=None if answer.pieces is None else read_pieces(workload, answer.pieces),
        rows=rows,
    )
