"""Each promise of docs/workloads.md, and how a breach of it shows: a text, or None where it is kept."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations_with_replacement, pairwise
from typing import Any, Final, TypeAlias

import msgspec

from shared.errors import FinishRefusedError
from shared.parked import Nature, nature_of
from shared.payload import reader_of
from shared.pipeline import SHARDS, row_of_total
from shared.promises.subject import FIRST_NUMBER, Subject, TrialOutcome, as_json, json_of
from shared.telemetry import contain
from shared.workloads import AnyWorkload, Failures, Line, Rejected, Total, map_all, raise_first, shard_of

Breach: TypeAlias = Callable[[Subject, Sequence[bytes]], str | None]
_FLOATS: Final = "The sum of floats depends on their order"
_RUNS: Final = 3
#: So few lines are divided in all ways, so that a sample shrinks to the smallest.
_FEW: Final = 6
_SHOWN: Final = 60
#: Lines of a sample that a person is shown, and the characters of each.
_MOST_LINES, _LINE = 5, 200


class State(StrEnum):
    """How the trial of a promise ended."""

    KEPT = "kept"
    BROKEN = "broken"
    NOT_TRIED = "not tried"


@dataclass(frozen=True, slots=True)
class Finding:
    """A promise and how its trial ended, with the smallest sample that breaks it."""

    promise: str
    says: str
    state: State
    found: str = ""
    remedy: str = ""
    #: The smallest sample that breaks it.
    lines: tuple[bytes, ...] = ()

    def __str__(self) -> str:
        """Return it for a person."""
        mark = {State.KEPT: "✓", State.BROKEN: "✗", State.NOT_TRIED: "-"}[self.state]
        if self.state is not State.BROKEN:
            return f"{mark} {self.says}{self.found and ': '}{self.found}"
        shown = [line[:_LINE].decode(errors="replace") for line in self.lines[:_MOST_LINES]]
        more = f"and {len(self.lines) - _MOST_LINES:,} more lines" if len(self.lines) > _MOST_LINES else ""
        remedy = self.remedy and f"remedy: {self.remedy}"
        return "\n    ".join(text for text in (f"{mark} {self.says}", self.found, remedy, *shown, more) if text)


@dataclass(frozen=True, slots=True)
class Promise:
    """A promise, the trial that finds a breach, and the remedy."""

    key: str
    says: str
    breach: Breach
    remedy: str
    is_of_split: bool = False
    #: A promise whose breach would show as a breach of this one too.
    after: str = ""

    def end(self, state: State, found: str = "", lines: Sequence[bytes] = ()) -> Finding:
        """Return the finding of its trial."""
        return Finding(self.key, self.says, state, found, self.remedy if lines else "", tuple(lines))


def _runs(subject: Subject, lines: Sequence[bytes]) -> None:
    subject.run(lines)


def _same(subject: Subject, lines: Sequence[bytes]) -> str | None:
    first = subject.outcome(lines)
    others = (subject.outcome(lines) for _ in range(_RUNS - 1))
    return next((text for one in others if (text := _differing(first, one, "another run"))), None)


def _state(subject: Subject, lines: Sequence[bytes]) -> str | None:
    used = subject.make()
    first = subject.outcome(lines, used)
    return _differing(first, subject.outcome(lines, used), "the second run of the same object")


def _process(subject: Subject, lines: Sequence[bytes]) -> str | None:
    if subject.elsewhere is None:
        return None
    return _differing(subject.outcome(lines), subject.elsewhere.outcome(lines), "another process")


def _input(subject: Subject, lines: Sequence[bytes]) -> str | None:
    workload = subject.make()
    read = reader_of(workload.transaction, workload.sums).read(lines).transactions  # type: ignore[arg-type]  # a class has a hash
    before = msgspec.json.encode(read)
    _map(workload, read)
    after = msgspec.json.encode(read)
    return None if after == before else f"map changed the transaction: {_difference(before, after)}"


def _map(workload: AnyWorkload, transactions: Sequence[Any]) -> Sequence[Any]:
    failures = Failures()
    mapped = map_all(workload, transactions, range(FIRST_NUMBER, FIRST_NUMBER + len(transactions)), failures)
    raise_first(failures.list_left(), len(transactions))
    return mapped


def _json(subject: Subject, lines: Sequence[bytes]) -> str | None:
    made = subject.run(lines)
    stored = msgspec.json.encode(made)
    found = subject.read(stored)
    if found == made or (found != subject.read(stored) and msgspec.json.encode(found) == stored):
        # The second: its type cannot be compared, since two copies of one partial differ.
        return None
    return f"the partial comes back changed: {_between(made, found)}"


def _values(subject: Subject, lines: Sequence[bytes]) -> str | None:
    workload = subject.make()
    read = reader_of(workload.transaction, workload.sums).read(lines).transactions  # type: ignore[arg-type]  # a class has a hash
    mapped = _map(workload, read)
    values = [value for value in mapped if type(value) is not Rejected]
    with contain():
        first, second = (msgspec.json.encode(workload.combine(values)) for _ in range(2))
    return (
        None
        if first == second
        else f"a second combine of the same values gives another partial: {_difference(first, second)}"
    )


def _nothing(subject: Subject, lines: Sequence[bytes]) -> str | None:
    nothing, partial = subject.store([]), subject.store(lines)
    for name, merged in (
        ("merge(combine([]), partial)", subject.merge(nothing, partial)),
        ("merge(partial, combine([]))", subject.merge(partial, nothing)),
    ):
        if not subject.is_same(merged, partial):
            return f"{name} is not the partial: {_difference(partial, merged)}"
    return None


def _associative(subject: Subject, lines: Sequence[bytes]) -> str | None:
    for said, chunks in _chunks(lines):
        a, b, c = map(subject.store, chunks)
        left, right = subject.merge(subject.merge(a, b), c), subject.merge(a, subject.merge(b, c))
        if not subject.is_same(left, right):
            return f"(a+b)+c is not a+(b+c){said}: {_difference(left, right)}"
    return None


def _chunks(lines: Sequence[bytes]) -> Iterator[tuple[str, list[Sequence[bytes]]]]:
    """Yield three chunks of the lines, and three in which every line is again, as an account is in a large job."""
    for places in _places(len(lines)):
        yield "", [lines[begin:end] for begin, end in pairwise((0, *places, len(lines)))]
    yield ", where a has each line once, b twice, c three times", [[*lines] * times for times in (1, 2, 3)]


def _places(count: int) -> Iterator[tuple[int, int]]:
    """Yield where lines are divided into three chunks: everywhere for a few lines, else into thirds."""
    if count > _FEW:
        yield count // 3, 2 * count // 3
    else:
        yield from combinations_with_replacement(range(count + 1), 2)


def _finish(subject: Subject, lines: Sequence[bytes]) -> str | None:
    partial = subject.store(lines)
    first, second = subject.finish(partial), subject.finish(partial)
    if list(map(as_json, first)) != list(map(as_json, second)):
        return "finish yields something else for the same partial"
    accounts = Counter(one.account for one in first if isinstance(one, Total))
    if twice := [account for account, count in accounts.items() if count > 1]:
        return f"finish yields two totals for account {twice[0][:_SHOWN]!r}"
    return next(_unfit(first), None)


def _unfit(items: Sequence[Total | Line]) -> Iterator[str]:
    """Yield the reason why an item cannot be written."""
    for item in items:
        if isinstance(item, Total):
            try:
                row_of_total("sample", 0, item)
            except FinishRefusedError as refused:
                yield str(refused)
        elif not as_json(item).startswith(b"{"):
            yield f"finish yields a line that is no JSON object: {as_json(item)[:_SHOWN].decode()}"


def _whole(subject: Subject, lines: Sequence[bytes]) -> str | None:
    partial = subject.store(lines)
    whole = Counter(map(as_json, subject.finish(partial)))
    parts = Counter(as_json(item) for cut in subject.cut(partial) for item in subject.finish(cut))
    if lost := whole - parts:
        return f"no shard yields {_first(lost)}, which the whole does"
    return f"a shard yields {_first(parts - whole)}, which the whole does not" if parts != whole else None


def _shard(subject: Subject, lines: Sequence[bytes]) -> str | None:
    for number, cut in enumerate(subject.cut(subject.store(lines))):
        for item in subject.finish(cut):
            if isinstance(item, Total) and (right := shard_of(item.account, SHARDS)) != number:
                return f"account {item.account[:_SHOWN]!r} is in shard {number} of {SHARDS}, and shard_of says {right}"
    return None


RUNS: Final = Promise(
    "runs", "map, combine and lines take every line", _runs, "return Rejected for a fault of one transaction"
)
#: In the order in which they are tried.
PROMISES: Final = (
    Promise("same", f"the same lines give the same, {_RUNS} times", _same, "use no clock, no random number, no state of a module or class"),
    Promise("process", "another process gives the same", _process, "sort the values of a set, and use no `hash`", after="same"),
    Promise("state", "no state outlives a call", _state, "keep nothing on `self`", after="same"),
    Promise("input", "map leaves the transaction unchanged", _input, "its sums are added up after map: make a value of your own"),
    Promise("json", "the partial comes back from JSON unchanged", _json, "declare as `partial` the type that combine returns"),
    Promise("values", "combine leaves its values unchanged", _values, "it is called again without one that fails: make a partial of its own", after="json"),
    Promise("nothing", "combine([]) changes nothing", _nothing, "return for no value the one that merge adds nothing of"),
    Promise("associative", "merge is associative", _associative, "use whole numbers or Decimal, and let only the values count, not their grouping"),
    Promise("finish", "finish yields what can be written, twice the same", _finish, "sort by account; merge the totals of an account"),
    Promise("whole", "split: the parts are the whole", _whole, "put each account into one cut; yield no line over all accounts", is_of_split=True),
    Promise("shard", "split: each account is in its shard", _shard, "place it by shard_of(account, count)", is_of_split=True),
)  # fmt: skip


def attempt(breach: Breach, subject: Subject, lines: Sequence[bytes]) -> str | None:
    """Return the breach. An error of the workload is one, but for an outage of a service that it calls."""
    try:
        with contain():
            return breach(subject, lines)
    except Exception as error:
        if nature_of(error) is Nature.TRANSIENT:
            raise
        return f"{type(error).__name__}: {error}"


def _differing(first: TrialOutcome, second: TrialOutcome, who: str) -> str | None:
    if first.partial != second.partial:
        return f"{who} gave another partial: {_difference(first.partial, second.partial)}"
    if first.lines != second.lines:
        return f"{who} gave other lines of its transactions"
    if first.finished != second.finished:
        return f"{who} gave other totals or lines, or another order of them"
    return None if first.cuts == second.cuts else f"{who} gave other cuts"


def _first(items: Counter[bytes]) -> str:
    return next(iter(items))[:_SHOWN].decode(errors="replace")


def _difference(left: bytes, right: bytes) -> str:
    return _between(json_of(left), json_of(right))


def _between(left: Any, right: Any, path: str = "") -> str:
    """Return the first values that differ, and their place."""
    at = f" at {path.lstrip('.')}" if path else ""
    if left == right:
        return f"the same values in another order or form{at}"
    if isinstance(left, dict) and isinstance(right, dict):
        if missing := [key for key in (*left, *right) if key not in left or key not in right]:
            return f"{missing[0]!r} is in one alone{at}"
        key = next(key for key in left if left[key] != right[key])
        return _between(left[key], right[key], f"{path}.{key}")
    if type(left) is type(right) and isinstance(left, list) and len(left) == len(right):
        n = next(n for n, pair in enumerate(zip(left, right, strict=True)) if pair[0] != pair[1])
        return _between(left[n], right[n], f"{path}[{n}]")
    cause = f". {_FLOATS}" if isinstance(left, float) and isinstance(right, float) else ""
    return f"{_short(left)} and {_short(right)}{at}{cause}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
