"""Publishes a payload in stretches: while the rest is read, the app works off what was sent.

What goes whole and where a stretch ends follow from the lines alone, never from time: the same content is cut alike on any
machine. So a publisher that begins anew finds its own stretches, compares them, and goes on behind them.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain
from typing import IO, Any, Self

from shared.payload import (
    DeclaredFields,
    Frame,
    Framed,
    FrameIndex,
    Framing,
    Limits,
    PayloadStore,
    StretchFields,
    StretchStore,
    expand_frame,
    read_stretch,
    spool_for,
    write_frames,
)
from shared.refusals import Reason, refuse


class StretchCut:
    """Cuts the texts of frames into stretches."""

    def __init__(self, texts: Iterable[tuple[bytes, int]], limits: Limits) -> None:
        self._texts, self._limits = iter(texts), limits
        self._next = next(self._texts, None)
        #: The frames of each stretch of the last call, and the hash of their text where it was wanted.
        self.frames: list[int] = []
        self.digest = hashlib.sha256()

    @property
    def is_over(self) -> bool:
        """Check whether nothing is left."""
        return self._next is None

    def take(self, most: int, *, is_hashed: bool = False) -> Iterator[tuple[bytes, int]]:
        """Yield the texts of so many stretches, each with its number of lines."""
        self.frames, self.digest = [], hashlib.sha256()
        text = items = self._limits.stretch_bytes + 1
        while self._next is not None:
            one, lines = self._next
            if text + len(one) > self._limits.stretch_bytes or items + lines > self._limits.items_most:
                if len(self.frames) == most:
                    return
                self.frames.append(0)
                text = items = 0
            text, items = text + len(one), items + lines
            self.frames[-1] += 1
            if is_hashed:
                self.digest.update(one)
            self._next = next(self._texts, None)
            yield one, lines


@dataclass(slots=True)
class StretchSender:
    """Writes the stretches of one job, or finds those that are there."""

    job: str
    payloads: PayloadStore
    stretches: StretchStore
    limits: Limits
    #: The job's message, which is the same each time.
    body: bytes
    #: Sends it, and returns its id and whether a hint was sent.
    drop: Callable[[bytes], tuple[str, bool]]
    #: Learns of each stretch: how many there are now, and whether this one was there.
    report: Callable[[int, bool], object]
    number: int = 0
    #: How many of them were there.
    found: int = 0
    items: int = 0
    frames: int = 0
    stored: int = 0
    sent: tuple[str, bool] = ("", False)
    _previous: str = ""
    _is_new: bool = False

    def look(self) -> int | None:
        """Return how many transactions the next stretch has that is there already. None: there is none."""
        content = self._find()
        if content is None:
            return None
        index = read_stretch(content, self.job, self.number, self.limits).index
        if index is None:
            raise self.conflict()
        return index.items

    def send(self, framed: Framed, spool: IO[bytes], text: str) -> None:
        """Write the next stretch and drop the message, or find that it is there."""
        self.limits.check_growth(self.number, self.items + framed.index.items)
        there, is_found = self._find(), True
        if there is None:
            is_found = False
            self.payloads.put(self.job, spool, framed.index.stored, framed.sha256)
            fields = StretchFields(
                previous=self._previous,
                blob=f"{self.job}/{framed.sha256}",
                codec=framed.codec,
                frames=framed.index.frames,
                text=text,
            )
            there = self.stretches.put(self.job, self.number, fields.encode())
        known = read_stretch(there, self.job, self.number, self.limits)
        if (known.text, known.previous) != (text, self._previous):
            # Another publisher of the same lines may have been first.
            raise self.conflict()
        self._previous, self.number, self.found = known.sha256, self.number + 1, self.found + is_found
        self.items += framed.index.items
        self.frames, self.stored = self.frames + len(framed.index.frames), self.stored + framed.index.stored
        if not is_found:
            self.sent = self.drop(self.body)
        self.report(self.number, is_found)

    def end(self, sums: Mapping[str, Decimal], declared: int | None) -> None:
        """Declare the end behind the last stretch. `declared`: the number of transactions that another system knows."""
        if declared not in {None, self.items}:
            raise refuse(
                Reason.COUNT_MISMATCH,
                f"{declared} transactions are declared, {self.items} were sent; the end is not: `sluice jobs stop "
                f"{self.job}` ends it",
            )
        if not self.number:
            raise refuse(Reason.EMPTY, "there was no line")
        end = DeclaredFields(self.items, {name: format(amount, "f") for name, amount in sums.items()})
        content = StretchFields(previous=self._previous, end=end).encode()
        if (self._find() or self.stretches.put(self.job, self.number, content)) != content:
            raise self.conflict()
        self.sent = self.drop(self.body)

    def _find(self) -> bytes | None:
        """Return the next stretch if it is there. Behind the first that is not, none is looked for."""
        content = None if self._is_new else self.stretches.find(self.job, self.number)
        self._is_new = content is None
        return content

    def conflict(self) -> Exception:
        """Return the refusal of a payload that is not the one whose stretches are there."""
        return refuse(
            Reason.CONFLICT,
            f"job {self.job!r} has other transactions from number {self.items + 1:,} on, so this is another payload",
        )


def send_cut(sender: StretchSender, framed: Framed, spool: IO[bytes], frames: Iterable[int]) -> None:
    """Send stretches out of one spool: so many frames each."""
    at = 0
    for count in frames:
        some = framed.index.frames[at : at + count]
        start, at = some[0].offset, at + count
        text, whole = hashlib.sha256(), hashlib.sha256()
        with spool_for(sender.limits) as own:
            spool.seek(start)
            for frame in some:
                stored = spool.read(frame.length)
                whole.update(stored)
                text.update(expand_frame(stored, framed.codec, sender.limits))
                own.write(stored)
            index = FrameIndex(tuple(Frame(one.offset - start, one.length, one.items, one.sha256) for one in some))
            sender.send(Framed(index, framed.codec, whole.hexdigest(), {}, 0), own, text.hexdigest())


@dataclass(slots=True)
class OpenJob:
    """A job that its publisher has open: it writes transactions as they come. Leaving the block declares the end.

    An error in the block leaves the job open: the same program, run anew with the same transactions, goes on with it.
    """

    sender: StretchSender
    #: Reads each of the first lines strictly.
    framing: Framing
    #: The number of transactions that another system knows.
    declared: int | None
    encode: Callable[[Iterable[Any]], Iterator[tuple[int, bytes]]]
    _lines: list[bytes] = field(default_factory=list)
    _bytes: int = 0
    _checked: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None:
            self.flush()
            if self._lines:
                raise self.sender.conflict()
            self.sender.end({}, self.declared)

    def write(self, transactions: Iterable[Any]) -> None:
        """Take transactions: objects, or lines of JSON as bytes. They are sent when they fill a stretch."""
        for _, line in self.encode(transactions):
            is_full = self._bytes + len(line) + 1 > self.sender.limits.stretch_bytes
            if is_full or len(self._lines) == self.sender.limits.items_most:
                self.flush()
            self._lines.append(line)
            self._bytes += len(line) + 1

    def flush(self) -> None:
        """Send now what was written, as one stretch. The app begins with it at once.

        A program that runs anew may flush elsewhere: then it waits until a stretch that is there is full.
        """
        while self._lines:
            there = self.sender.look()
            if there is not None and there > len(self._lines):
                return
            self._send(self._lines[: there or len(self._lines)])

    def _send(self, lines: list[bytes]) -> None:
        first, taken = self.sender.items + 1, len(lines)
        text = hashlib.sha256(b"".join(chain.from_iterable((line, b"\n") for line in lines))).hexdigest()
        left = Framing(
            limits=self.framing.limits, codec=self.framing.codec, checked=max(0, self.framing.checked - self._checked)
        )
        with spool_for(self.sender.limits) as spool:
            framed = write_frames(enumerate(lines, first), spool, left)
            self.sender.send(framed, spool, text)
        self._checked += framed.checked
        del self._lines[:taken]
        self._bytes = sum(map(len, self._lines)) + len(self._lines)
