"""Tries all promises of a workload on lines, and finds for each broken one the smallest sample that shows it."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from shared.errors import SluiceError
from shared.grammar import Rate, read_limits
from shared.ledger import MERGED_MOST
from shared.payload import MIB
from shared.pipeline import count_seconds
from shared.promises.measure import RANDOM_SEED, Measured, measure
from shared.promises.promises import PROMISES, RUNS, Finding, Promise, State, attempt
from shared.promises.subject import Elsewhere, Subject
from shared.workloads import AnyWorkload, Workloads, has_split, rates_of

#: A broken promise is tried on so many lines first, since most breaches show in few.
_FIRST_FEW: Final = (1, 3, 10, 30, 100, 1000)
#: The upper bound of all lines of the trials that shrink a sample: this times the sample, and so many.
_TIMES, _LINES = 20, 200
#: Without these a chunk cannot be run, stored and merged.
_NEEDED: Final = (RUNS.key, "json", "associative")
_TRIED: Final = "there is something to try"
_SPEED: Final = "a usual chunk ends in time"
_SIZE: Final = "a job of this size ends"


@dataclass(frozen=True, slots=True)
class Report:
    """All promises of a workload, and what was measured. `findings` are the broken ones."""

    trials: tuple[Finding, ...]
    measured: Measured
    random_seed: int = RANDOM_SEED
    #: The rate of each limit of its calls.
    limits: Mapping[str, Rate] = field(default_factory=dict)

    @property
    def findings(self) -> list[Finding]:
        """The promises that are broken."""
        return [one for one in self.trials if one.state is State.BROKEN]

    def __str__(self) -> str:
        """Return all of it for a person."""
        return "\n".join((*(str(one) for one in self.trials), *self._about()))

    def _about(self) -> Iterator[str]:
        found = self.measured
        if found.rejected:
            reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(found.rejected.items()))
            yield f"  {found.rejected.total():,} of {found.ran:,} lines were rejected: {reasons}"
        if len(found.sample) < found.lines:
            yield (
                f"  {found.ran:,} of {found.lines:,} lines ran once; the promises were tried on {len(found.sample):,}, drawn "
                f"with random seed {self.random_seed}"
            )
        for name, rate in self.limits.items():
            hours = count_seconds(rate, 1_000_000) / 3600
            yield f"  limit {name}: {rate}, so a million transactions take {hours:,.1f} hours; the trials called without it"
        if found.sizes:
            lines, size = found.chunk
            yield (
                f"  {found.seconds_each * 1e6:,.1f} µs per transaction; bytes of a partial: {size:,} for {lines:,} lines; a job of "
                f"{found.largest_job:,} such lines ends (limit: {MERGED_MOST // MIB} MiB to merge)"
            )


def check_workload(
    workload: AnyWorkload, lines: Iterable[bytes], *, clock: Callable[[], float] = time.perf_counter
) -> Report:
    """Try the promises of a workload on lines of NDJSON. It raises nothing: `findings` of the report says all.

    `map` is called for real, some thirty times for a line.
    """
    try:
        Workloads([workload])
    except SluiceError as error:
        return Report((Finding("usable", "the app takes the workload", State.BROKEN, str(error)),), Measured())
    return _check(Subject.of(workload), lines, clock, _say_nothing)


def check_named(name: str, settings: Mapping[str, str], lines: Iterable[bytes], say: Callable[[str], object]) -> Report:
    """Try the promises of an entry of `SLUICE_WORKLOADS`. `say` gets each promise before its trial."""
    return _check(Subject.load(name, settings), lines, time.perf_counter, say)


def _say_nothing(_says: str) -> None:
    pass


def _check(
    subject: Subject, lines: Iterable[bytes], clock: Callable[[], float], say: Callable[[str], object]
) -> Report:
    given = (text for line in lines if (text := line.rstrip(b"\r\n")))
    measured = measure(subject, given, clock)
    if measured.failed:
        return Report((_explain(subject, measured.failed),), measured)
    if measured.ran == measured.rejected.total():
        reasons = ", ".join(sorted(measured.rejected))
        found = f"all {measured.lines:,} lines were rejected: {reasons}" if measured.lines else "there is no line"
        return Report((Finding("tried", _TRIED, State.BROKEN, found),), measured)
    trials = [_judge("speed", _SPEED, measured.slow), _judge("size", _SIZE, measured.large)]
    return Report((*_try_all(subject, measured.sample, say), *trials), measured, limits=_limits(subject))


def _limits(subject: Subject) -> Mapping[str, Rate]:
    """Return the rates as the app has them. A fault in the setting stops the app, and not the trial."""
    replaced = read_limits("SLUICE_LIMITS", subject.settings.get("SLUICE_LIMITS", ""), lambda _fault: None)
    return {name: replaced.get(name, rate) for name, rate in rates_of(subject.make()).items()}


def _judge(key: str, says: str, breach: str | None) -> Finding:
    return Finding(key, says, State.BROKEN if breach else State.KEPT, breach or "")


def _explain(subject: Subject, lines: Sequence[bytes]) -> Finding:
    """Return the finding about a chunk in which the workload failed."""
    trials = [_try(subject, promise, lines) for promise in (RUNS, *PROMISES) if promise.key in _NEEDED]
    if broken := [one for one in trials if one.state is State.BROKEN]:
        return broken[0]
    # An outage of a service is no fault of the workload, but nothing was tried.
    return replace(
        trials[0], state=State.BROKEN, found=trials[0].found or "it failed once, and not again with the same lines"
    )


def _try_all(subject: Subject, lines: Sequence[bytes], say: Callable[[str], object]) -> Iterator[Finding]:
    broken: set[str] = set()
    is_split = has_split(subject.make())
    with _elsewhere(subject, lines) as (known, why):
        for promise in PROMISES:
            say(promise.says)
            if promise.after in broken:
                yield promise.end(State.NOT_TRIED, f"mend {promise.after!r} first")
            elif promise.is_of_split and not is_split:
                yield promise.end(State.NOT_TRIED, "the workload has no split")
            elif promise.key == "process" and why:
                yield promise.end(State.NOT_TRIED, why)
            else:
                found = _try(known, promise, lines)
                broken |= {promise.key} if found.state is State.BROKEN else set()
                yield found


@contextmanager
def _elsewhere(subject: Subject, lines: Sequence[bytes]) -> Iterator[tuple[Subject, str]]:
    """Yield the subject with its other process, or the reason against one."""
    try:
        rebuilt = Subject.load(subject.name, subject.settings)
        if rebuilt.outcome(lines[:100]) != subject.outcome(lines[:100]):
            raise ValueError("its class builds another one than this")  # noqa: TRY301 - one reason of several
        elsewhere = Elsewhere(subject.name, subject.settings)
    except Exception as error:  # noqa: BLE001 - the user's code, which may raise anything
        yield subject, f"{subject.name} cannot be loaded there: {error}"
        return
    try:
        yield replace(subject, elsewhere=elsewhere), ""
    finally:
        elsewhere.close()


def _try(subject: Subject, promise: Promise, lines: Sequence[bytes]) -> Finding:
    try:
        for few in (*(few for few in _FIRST_FEW if few < len(lines)), len(lines)):
            if found := attempt(promise.breach, subject, lines[:few]):
                least, found = shrink(lines[:few], found, lambda some: attempt(promise.breach, subject, some))
                return promise.end(State.BROKEN, found, least)
    except Exception as outage:  # noqa: BLE001 - of a service that the workload calls
        return promise.end(State.NOT_TRIED, f"{type(outage).__name__}: {outage}")
    return promise.end(State.KEPT)


def shrink(
    lines: Sequence[bytes], text: str, breach: Callable[[Sequence[bytes]], str | None]
) -> tuple[Sequence[bytes], str]:
    """Return fewer lines that still show the breach, and its text. The number of trials is bounded."""
    least, parts = lines, 2
    left = _TIMES * len(lines) + _LINES
    while len(least) > 1 and left > 0:
        size = -(-len(least) // parts)
        for start in range(0, len(least), size):
            rest = [*least[:start], *least[start + size :]]
            left -= len(rest)
            if found := breach(rest):
                least, text, parts = rest, found, max(2, parts - 1)
                break
            if left <= 0:
                break
        else:
            if parts >= len(least):
                break
            parts = min(len(least), 2 * parts)
    return least, text
