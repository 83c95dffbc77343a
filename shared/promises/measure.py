"""One pass over all lines, as jobs go through them: speed and sizes, and the sample that the promises are tried on.

It ends for a file of any size: lines are measured for half a minute, and the rest is read. The sample of a large file is
drawn at random, by a fixed random seed, so the same file has the same sample.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from shared.ledger import MERGED_MOST
from shared.payload import Limits
from shared.pipeline import LARGEST, LONGEST, SMALLEST, STREAM_MOST
from shared.promises.subject import FIRST_NUMBER, Subject
from shared.telemetry import contain
from shared.workloads import has_lines, has_split, run_lines

#: Lines of the sample, and the random seed that draws them.
SAMPLE: Final = 8_000
RANDOM_SEED: Final = 1
#: Seconds of measuring, after which lines are only read, and seconds that one run of the sample may take.
MEASURED_FOR, RUN_FOR = 30.0, 1.0
#: Lines of the first chunk, and the fewest of a sample of a larger file.
FIRST_CHUNK, FEWEST = 100, 30


@dataclass(slots=True)
class Measured:
    """The findings of the pass."""

    lines: int = 0
    sample: list[bytes] = field(default_factory=list)
    #: Lines that ran, the seconds that they took, and how many of them were rejected, by reason.
    ran: int = 0
    seconds: float = 0.0
    rejected: Counter[str] = field(default_factory=Counter)
    #: The largest partial of a chunk: its lines and bytes.
    chunk: tuple[int, int] = (0, 0)
    #: Bytes of the lines that its accepted transactions made.
    line_bytes: int = 0
    #: Lines, and the bytes of their merged partial, or of its largest cut.
    sizes: list[tuple[int, int]] = field(default_factory=list)
    #: The chunk in which the workload failed.
    failed: Sequence[bytes] = ()

    @property
    def seconds_each(self) -> float:
        """The time of a transaction."""
        return self.seconds / self.ran if self.ran else 0.0

    @property
    def largest_job(self) -> int:
        """Transactions of a job that surely ends, if others bring as much that is new as the last ones here."""
        most = Limits().items_most
        if not self.sizes:
            return most
        (lines_before, bytes_before), (lines, size) = self.sizes[-2] if self.sizes[1:] else (0, 0), self.sizes[-1]
        growth = (size - bytes_before) / max(1, lines - lines_before)
        return most if growth <= 0 else max(0, min(most, int(lines + (MERGED_MOST - size) / growth)))

    @property
    def slow(self) -> str | None:
        """How the workload is too slow for chunks of the usual size."""
        each = self.seconds_each
        if self.seconds < RUN_FOR or each * SMALLEST <= LONGEST:
            return None
        return (
            f"a transaction takes {each * 1000:.0f} ms, so a chunk of {SMALLEST:,} takes {each * SMALLEST:.0f} s, the limit is "
            f"{LONGEST:.0f} s. Set SLUICE_CHUNK_ITEMS to {max(1, int(LONGEST / each))} or less, or map many at a time"
        )

    @property
    def large(self) -> str | None:
        """How a result or the merged partial is too large."""
        lines, size = self.chunk
        if size > Limits().result_most:
            return (
                f"the partial of {lines:,} lines has {size:,} bytes, the limit of a result is {Limits().result_most:,}"
            )
        if self.line_bytes * LARGEST > STREAM_MOST * max(1, self.ran):
            return (
                f"a transaction makes {self.line_bytes // self.ran:,} bytes of lines, and a chunk of {LARGEST:,} may make "
                f"{STREAM_MOST:,}. Set SLUICE_CHUNK_ITEMS to {STREAM_MOST * self.ran // self.line_bytes} or less, or keep less"
            )
        lines, size = self.sizes[-1] if self.sizes else (0, 0)
        if size <= MERGED_MOST:
            return None
        return (
            f"the partial of {lines:,} lines has {size:,} bytes where one process merges it, the limit is {MERGED_MOST:,}. "
            "Keep less of each line, write a `split`, or raise SLUICE_MERGED_MIB"
        )


def measure(subject: Subject, lines: Iterable[bytes], clock: Callable[[], float]) -> Measured:
    """Run the lines in chunks while time is left, and draw the sample from all."""
    meter, waiting = _Meter(subject, clock), []
    measured, drawn, chance = meter.found, [], random.Random(RANDOM_SEED)  # noqa: S311 - a sample
    for number, line in enumerate(lines):
        measured.lines += 1
        if number < SAMPLE:
            drawn.append((number, line))
        elif (place := chance.randrange(number + 1)) < SAMPLE:
            drawn[place] = (number, line)
        if meter.wanted:
            waiting.append(line)
            if len(waiting) == meter.wanted:
                meter.run(waiting)
                waiting = []
    if waiting and meter.wanted:
        meter.run(waiting)
    meter.weigh()
    each = measured.seconds_each
    most = SAMPLE if each * SAMPLE <= RUN_FOR else max(FEWEST, int(RUN_FOR / each))
    kept = chance.sample(drawn, most) if len(drawn) > most else drawn
    measured.sample = [line for _, line in sorted(kept)]
    return measured


class _Meter:
    """Runs chunks and merges their partials, as one process of an app does."""

    def __init__(self, subject: Subject, clock: Callable[[], float]) -> None:
        self.found = Measured()
        #: Lines of the next chunk; 0: no more.
        self.wanted = FIRST_CHUNK
        self._subject, self._clock = subject, clock
        self._workload = subject.make()
        self._emit = self._weigh_lines if has_lines(self._workload) else None
        self._merged: Any = None
        #: Bytes that were merged since the last weighing.
        self._added = 0

    def run(self, lines: Sequence[bytes]) -> None:
        """Run one chunk. A failure ends the measuring."""
        found, began = self.found, self._clock()
        try:
            with contain():
                ran = run_lines(self._workload, lines, FIRST_NUMBER + found.ran, self._emit)
                found.seconds += self._clock() - began
                self._merge(len(lines), msgspec.json.encode(ran.partial))
        except Exception:  # noqa: BLE001 - the user's code; the trial of these lines says which error
            found.failed, self.wanted = lines, 0
            return
        found.rejected.update(one.reason for one in ran.rejections)
        self.wanted = 0 if found.seconds >= MEASURED_FOR else min(LARGEST, 2 * self.wanted)

    def _weigh_lines(self, text: bytes, _items: int) -> None:
        self.found.line_bytes += len(text)

    def _merge(self, lines: int, partial: bytes) -> None:
        found, read = self.found, self._subject.read(partial)
        self._merged = read if self._merged is None else self._workload.merge(self._merged, read)
        found.ran += lines
        found.chunk = max(found.chunk, (lines, len(partial)), key=lambda one: (one[1], one[0]))
        self._added += len(partial)
        if found.ran >= 2 * (found.sizes[-1][0] if found.sizes else 0) or self._added >= MERGED_MOST // 4:
            self.weigh()

    def weigh(self) -> None:
        """Note the bytes of the merged partial, or of its largest cut. One that is too large ends the measuring."""
        found, self._added = self.found, 0
        if self._merged is None or (found.sizes and found.sizes[-1][0] == found.ran):
            return
        whole = msgspec.json.encode(self._merged)
        size = max(map(len, self._subject.cut(whole))) if has_split(self._workload) else len(whole)
        found.sizes.append((found.ran, size))
        if size > MERGED_MOST:
            self.wanted = 0
