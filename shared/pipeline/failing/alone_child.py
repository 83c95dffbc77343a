"""The process of a suspect: runs one chunk, and notes each call of the workload before it begins."""

import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from msgspec import json

from shared.errors import NoSlotError
from shared.parked import OTHERWISE, FailedAlone, cause_of, kind_of, nature_of
from shared.payload import Limits
from shared.pipeline.failing.alone import Board, Question, RunAnswer, read_frames, write_frame
from shared.pipeline.failing.aside import LONGEST_FOUND
from shared.pipeline.failing.work_stages import PROCESS
from shared.pipeline.outputs import run_in_parts
from shared.pipeline.streams import Stream
from shared.versions import decode
from shared.workloads import AnyWorkload, Calls, Workloads, has_lines, is_uncalled, is_waiting


def main(board: int, chunk: int) -> None:
    """Answer the question of the standard input. The board and the chunk are files that are open under these numbers."""
    question = decode(sys.stdin.buffer.read(), Question)
    # If the one that started it dies, no other ends it. Code that holds the interpreter would not even hear of it.
    signal.alarm(question.seconds)
    # When memory is short, the kernel ends this process first. Only Linux asks.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    replies = os.dup(1)
    # All that the workload prints goes to standard error.
    os.dup2(2, 1)
    # In a thread, as in the app: what `sys.exit` raises in the main thread ends the process.
    with ThreadPoolExecutor(1) as thread:
        frames = read_frames(os.fdopen(chunk, "rb"))
        answer, streams = thread.submit(_answer, question, frames, Board(board)).result()
    with os.fdopen(replies, "wb") as file:
        write_frame(file, json.encode(answer))
        for one in streams:
            write_frame(file, one.read())
    # Without the exit handlers of libraries: the answer is there, and no failure may come behind it.
    os._exit(0)


def _answer(question: Question, frames: Iterator[bytes], board: Board) -> tuple[RunAnswer, list[Stream]]:
    try:
        workloads = Workloads.load(question.workloads, question.settings)
        workload = cast("AnyWorkload", _Watched(workloads.find(question.workload), board, question))
        # The note of a call comes after its turn.
        calls = Calls(turns=_AskedTurns(*question.turns) if question.turns else None)
        board.note(Board.NONE)
        parts = (frame.split(b"\n") for frame in frames)
        limits = Limits(rejected_text_most=question.rejected_text_most)
        ran = run_in_parts(
            workload,
            parts,
            question.first_number,
            limits,
            makes_lines=question.makes_lines,
            left=None if question.left is None else frozenset(question.left),
            calls=calls,
        )
        answer = RunAnswer(
            accepted=ran.accepted,
            rejected=ran.rejected,
            partial=json.encode(ran.partial),
            rejections=ran.rejections,
            closely=ran.closely,
            left=[(one.number, _describe(one.error, one.number), one.line) for one in ran.left],
            uncalled=[one.number for one in ran.left if is_uncalled(one.error)],
            portion=ran.failed,
            pieces=None if ran.pieces is None else [(first, json.encode(one)) for first, one in ran.pieces],
            streams={name: stream.head for name, stream in ran.streams.items()},
            rows={first: row.head for first, row in ran.rows.items()},
        )
        return answer, [*ran.streams.values(), *ran.rows.values()]
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises is judged where the message is
        return RunAnswer(failed=_describe(error)), []


def _describe(error: Exception, number: int | None = None) -> FailedAlone:
    cause = cause_of(error, PROCESS, OTHERWISE)
    # One error may stand for several transactions.
    found = cause if number is None else cause._replace(failed_item=number, found=cause.found[:LONGEST_FOUND])
    return FailedAlone(kind_of(error), nature_of(error), found)


class _KilledBeforeError(Exception):
    """A process died of this transaction before. The one that started this one knows how."""


class _AskedTurns:
    """The turns of a child: the one that started it takes them."""

    def __init__(self, asks: int, gets: int) -> None:
        self._asks, self._gets, self._has_turn = asks, gets, False

    def begin(self) -> bool:
        """Use the turn that came."""
        had, self._has_turn = self._has_turn, False
        return had

    def wait(self) -> None:
        """Request a turn, and wait for it."""
        # The one that started this one gives none any more.
        with suppress(BrokenPipeError):
            os.write(self._asks, b"?")
        if not os.read(self._gets, 1):
            raise NoSlotError("no turn of the limits came; this chunk is delivered again", waits_for="a limit")
        self._has_turn = True


class _Watched:
    """A workload whose calls are noted. It makes none for those of which a child died before."""

    def __init__(self, workload: AnyWorkload, board: Board, question: Question) -> None:
        self._workload, self._note = workload, board.note
        self._killed, self._is_in_turn = frozenset(question.killed), question.is_in_turn
        if question.is_in_turn:
            self.concurrency = 1
        self.map = self._watch_waiting(workload.map) if is_waiting(workload) else self._watch(workload.map)
        if has_lines(workload):
            self.lines = self._watch(workload.lines)  # type: ignore[attr-defined]  # it was looked for

    def __getattr__(self, name: str) -> Any:
        if name == "map_many" and self._is_in_turn:
            raise AttributeError(name)
        return getattr(self._workload, name)

    def combine(self, mapped: Sequence[Any]) -> Any:
        """Combine. This call is for no transaction alone."""
        self._note(Board.NONE)
        return self._workload.combine(mapped)

    def _watch(self, call: Callable[..., Any]) -> Callable[..., Any]:
        note = self._note_next

        def call_noted(transaction: Any, number: int, *value: Any) -> Any:
            note(number)
            return call(transaction, number, *value)

        return call_noted

    def _note_next(self, number: int) -> None:
        if number in self._killed:
            raise _KilledBeforeError
        self._note(number)

    def _watch_waiting(self, call: Callable[[Any, int], Any]) -> Callable[[Any, int], Awaitable[Any]]:
        running: set[int] = set()

        def note() -> None:
            # Of several that run at once, the guilty one is not known.
            self._note(next(iter(running)) if len(running) == 1 else Board.NONE)

        async def call_noted(transaction: Any, number: int) -> Any:
            self._note_next(number)
            running.add(number)
            note()
            try:
                return await call(transaction, number)
            finally:
                running.discard(number)
                note()

        return call_noted
