"""Two changers of one job, request by request, in every order and with every fault that a schedule names.

A changer is a thread that stands still before each of its requests. The schedule says who goes on, and what befalls a
commit: its reply is lost after it took effect, or the commit itself is, with an answer that proves nothing or with none.
"""

import threading
from dataclasses import dataclass, field, replace
from decimal import Decimal
from queue import SimpleQueue

from shared.errors import StorageUnavailableError
from shared.ledger.ledger import Ledger, Written, change
from shared.ledger.records import Job
from shared.retry import Retry
from tests.ledger.builders import row
from tests.waiting import LIMIT

FAULTS = ("none", "reply lost, unproven", "commit lost, unproven", "reply lost, no answer", "commit lost, no answer")
CHANGERS = ("a", "b")
RETRY = Retry(attempts=20, pause=lambda _seconds: None)


@dataclass
class Schedule:
    """The choices of one run: those given, then the first option each time; `taken` says what there was to choose."""

    given: tuple[int, ...] = ()
    faults: int = 1
    taken: list[tuple[int, int]] = field(default_factory=list)
    #: What befell commits, in their order.
    befell: list[str] = field(default_factory=list)

    def choose(self, options: int) -> int:
        """Return the next choice."""
        at = len(self.taken)
        choice = self.given[at] % options if at < len(self.given) else 0
        self.taken.append((choice, options))
        return choice

    def fault(self) -> str:
        """Return what befalls the next commit."""
        chosen = FAULTS[self.choose(len(FAULTS))] if self.faults else FAULTS[0]
        self.faults -= chosen != FAULTS[0]
        self.befell.append(chosen)
        return chosen


def every_schedule(faults):
    """Yield every schedule with at most so many faults, each a run of its own."""
    given = ()
    while True:
        schedule = Schedule(given, faults)
        yield schedule
        taken = list(schedule.taken)
        while taken and taken[-1][0] + 1 == taken[-1][1]:
            taken.pop()
        if not taken:
            return
        given = (*(choice for choice, _ in taken[:-1]), taken[-1][0] + 1)


class _Turns:
    """Stands before the ledger: hands each request over and waits for its answer."""

    def __init__(self, ledger: Ledger, name: str, requests: SimpleQueue) -> None:
        self._ledger, self._name, self._requests = ledger, name, requests

    def read(self, job):
        """Read the job when it is this changer's turn."""
        return self._ask("read", lambda: self._ledger.read(job))

    def commit(self, job, rows=(), messages=()):
        """Commit when it is this changer's turn."""
        return self._ask("commit", lambda: self._ledger.commit(job, rows, messages))

    def end(self):
        """Say that there are no more requests."""
        self._requests.put((self._name, "ended", None, None))

    def _ask(self, kind, do):
        answer = SimpleQueue()
        self._requests.put((self._name, kind, do, answer))
        found = answer.get()
        if isinstance(found, Exception):
            raise found
        return found


def decide(name: str, found: Job) -> Job | Written:
    """Add a changer's own sum and its own row, unless they are there."""
    if name in found.declared:
        return found
    made = replace(found, declared={**found.declared, name: Decimal(1)}, forgiven=found.forgiven + 1)
    return Written(made, [row(CHANGERS.index(name))])


def run(ledger: Ledger, job: Job, schedule: Schedule, loop=change) -> dict[str, Job]:
    """Let two changers change the job that both have read, and return what each was answered in the end."""
    requests, ended = SimpleQueue(), {}

    threads = [
        threading.Thread(target=_redeliver, args=[name, _Turns(ledger, name, requests), job, loop, ended], daemon=True)
        for name in CHANGERS
    ]
    for thread in threads:
        thread.start()
    standing = {}
    while len(ended) < len(CHANGERS):
        while len(standing) + len(ended) < len(CHANGERS):
            name, kind, do, answer = requests.get(timeout=LIMIT)
            if kind != "ended":
                standing[name] = (kind, do, answer)
        if standing:
            name = sorted(standing)[schedule.choose(len(standing))]
            kind, do, answer = standing.pop(name)
            answer.put(do() if kind == "read" else _committed(do, schedule.fault()))
    return ended


def _redeliver(name, turns, job, loop, ended):
    known = job
    while name not in ended:
        try:
            ended[name] = loop(turns, job.job, lambda found: decide(name, found), tried="try", known=known, retry=RETRY)
        except StorageUnavailableError:
            # The message is delivered again: its handler reads the job first.
            known = None
        except Exception as error:  # noqa: BLE001 - the test looks at it
            ended[name] = error
    turns.end()


def _committed(do, fault):
    written = None if fault.startswith("commit lost") else do()
    if fault.endswith("no answer"):
        return StorageUnavailableError("no answer")
    return written if fault == FAULTS[0] else None
