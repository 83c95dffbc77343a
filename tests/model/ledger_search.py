"""Searches every state that the ledger's protocol can reach: `python -m tests.model.ledger_search`."""

import sys
import time
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from tests.model.ledger_model import Bug, Next, Protocol, Script, unfinished, violation

#: A job of two chunks, one of which is parked and replayed; and a job of two chunks.
REPLAYED = Script(2, ((0, "done"), (1, "parked"), (1, "done")))
PLAIN = Script(2, ((0, "done"), (1, "done")))
SHORT = Script(1, ((0, "done"),))


class Numbers:
    """Gives each value a number, the same for equal values."""

    def __init__(self) -> None:
        self.values: list[Hashable] = []
        self._numbers: dict[Hashable, int] = {}

    def of(self, value: Hashable) -> int:
        """Return the number of a value."""
        number = self._numbers.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number


@dataclass(frozen=True)
class Found:
    """What a search came to."""

    states: int
    seconds: float
    #: What is wrong, with the steps that lead there; nothing where nothing is.
    problem: str = ""
    trace: tuple[str, ...] = ()
    #: Whether every state that can be reached was visited.
    is_complete: bool = True
    #: Every kind of step that was taken.
    labels: frozenset[str] = frozenset()


class Search:
    """A breadth-first search over several jobs and workers."""

    def __init__(
        self,
        scripts: tuple[Script, ...],
        *,
        workers: int = 3,
        faults: int = 2,
        duplicates: int = 1,
        bug: Bug | None = None,
        most_states: int = 10**9,
    ) -> None:
        self.protocols = [Protocol(script, bug) for script in scripts]
        self.workers, self.faults, self.duplicates, self.most = workers, faults, duplicates, most_states
        self._jobs = [Numbers() for _ in scripts]
        #: A worker's number says on which job it works; 0 is idle.
        self._workers = Numbers()
        self._workers.of((None, None))
        self._steps: dict[tuple[int, int, int], list[tuple[int, int, int, int]]] = {}
        self._environment: dict[tuple[int, int], list[int]] = {}
        self._problems: list[dict[int, str]] = [{} for _ in scripts]
        self._labels: set[str] = set()

    def run(self) -> Found:
        """Visit every state, until one is wrong."""
        began = time.monotonic()
        start = tuple(
            numbers.of(protocol.script.start()) for numbers, protocol in zip(self._jobs, self.protocols, strict=True)
        )
        first = (*start, *(0,) * self.workers, self.faults, self.duplicates)
        seen = {first: -1}
        order, position = [first], 0
        while position < len(order):
            state = order[position]
            count = 0
            for after in self._after(state):
                count += 1
                if after not in seen:
                    seen[after] = position
                    order.append(after)
            problem = self._problem(state, is_last=count == 0)
            if problem:
                return Found(len(order), time.monotonic() - began, problem, self._trace(order, seen, position))
            position += 1
            if len(order) >= self.most:
                break
        is_complete, labels = position == len(order), frozenset(self._labels)
        return Found(len(order), time.monotonic() - began, is_complete=is_complete, labels=labels)

    def _after(self, state: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        jobs = len(self.protocols)
        faults, duplicates = state[-2:]
        for index in range(jobs):
            for job in self._environment_of(index, state[index]):
                yield (*state[:index], job, *state[index + 1 :])
        previous = -1
        for place in range(jobs, len(state) - 2):
            worker = state[place]
            if worker == previous:
                # Workers are alike: what one of two in the same state does, the other need not do as well.
                continue
            previous = worker
            on = self._workers.values[worker][0]
            for index in range(jobs) if on is None else (on,):
                for job, next_worker, used_faults, used_duplicates in self._steps_of(index, state[index], worker):
                    if used_faults <= faults and used_duplicates <= duplicates:
                        others = [*state[jobs:place], next_worker, *state[place + 1 : -2]]
                        others.sort()
                        yield (
                            *state[:index],
                            job,
                            *state[index + 1 : jobs],
                            *others,
                            faults - used_faults,
                            duplicates - used_duplicates,
                        )

    def _steps_of(self, index: int, job: int, worker: int) -> list[tuple[int, int, int, int]]:
        key = (index, job, worker)
        found = self._steps.get(key)
        if found is None:
            stored, working = self._jobs[index].values[job], self._workers.values[worker][1]
            steps = self.protocols[index].steps(stored, working)
            found = self._steps[key] = [self._numbered(index, step) for step in steps]
        return found

    def _numbered(self, index: int, step: Next) -> tuple[int, int, int, int]:
        self._labels.add(step.label)
        worker = 0 if step.worker is None else self._workers.of((index, step.worker))
        return self._jobs[index].of(step.job), worker, step.faults, step.duplicates

    def _environment_of(self, index: int, job: int) -> list[int]:
        key = (index, job)
        found = self._environment.get(key)
        if found is None:
            steps = self.protocols[index].environment(self._jobs[index].values[job])
            found = self._environment[key] = [self._numbered(index, step)[0] for step in steps]
        return found

    def _problem(self, state: tuple[int, ...], *, is_last: bool) -> str:
        for index, protocol in enumerate(self.protocols):
            known = self._problems[index]
            number = state[index]
            if number not in known:
                known[number] = violation(protocol.script, self._jobs[index].values[number])
            if known[number]:
                return known[number]
            if is_last and (missing := unfinished(self._jobs[index].values[number])):
                return missing
        return ""

    def _trace(self, order: list[tuple[int, ...]], seen: dict[tuple[int, ...], int], position: int) -> tuple[str, ...]:
        lines = []
        while position >= 0:
            lines.append(self._told(order[position]))
            position = seen[order[position]]
        return tuple(reversed(lines))

    def _told(self, state: tuple[int, ...]) -> str:
        jobs = [str(numbers.values[state[n]]) for n, numbers in enumerate(self._jobs)]
        workers = [str(self._workers.values[number]) for number in state[len(jobs) : -2]]
        return " | ".join([*jobs, *workers])


#: What is searched completely: the jobs, how many workers, crashes and lost replies, and messages that come twice.
SCOPES = (
    ("3 workers, 2 jobs of one chunk", (SHORT, SHORT), {"workers": 3, "faults": 2, "duplicates": 1}),
    ("3 workers, 1 job of two chunks", (PLAIN,), {"workers": 3, "faults": 2, "duplicates": 1}),
    ("2 workers, 1 job with a replay", (REPLAYED,), {"workers": 2, "faults": 2, "duplicates": 1}),
)
#: Where each bug is looked for, the smallest first.
BUG_SCOPES = (
    ((PLAIN,), {"workers": 2, "faults": 1, "duplicates": 1}),
    ((REPLAYED,), {"workers": 2, "faults": 1, "duplicates": 0}),
    ((REPLAYED,), {"workers": 2, "faults": 2, "duplicates": 1}),
)
MOST_STATES_OF_A_BUG = 500_000


def find(bug: Bug) -> Found:
    """Search until the bug shows."""
    found = Found(0, 0.0)
    for scripts, scope in BUG_SCOPES:
        found = Search(scripts, **scope, bug=bug, most_states=MOST_STATES_OF_A_BUG).run()
        if found.problem:
            break
    return found


def report() -> Iterator[tuple[bool, str]]:
    """Search every scope and every bug, and yield whether it came out as it must, and a line to read."""
    states, seconds = 0, 0.0
    for name, scripts, scope in SCOPES:
        found = Search(scripts, **scope).run()
        states, seconds = states + found.states, seconds + found.seconds
        lines = [f"{name}, 2 faults, 1 duplicate: {found.states:,} states in {found.seconds:.0f} s", *found.trace]
        yield not found.problem, "\n".join([*lines, found.problem or "right"])
    yield True, f"all: {states:,} states in {seconds:.0f} s"
    for bug in Bug:
        found = find(bug)
        yield bool(found.problem), f"seeded bug {bug.name}: {found.problem or 'NOT FOUND'} ({found.states:,} states)"


def main() -> int:
    """Print the report."""
    is_right = True
    for came_out, line in report():
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
        is_right &= came_out
    return int(not is_right)


if __name__ == "__main__":
    sys.exit(main())
