"""What befalls the requests of one process: numbered below the SDK's retry policy, each repetition on its own."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

from azure.servicebus.exceptions import ServiceBusConnectionError

from tests.faults.transport import FaultyTransport

MODES = (
    "kill_before",
    "kill_after",
    "reset_before",
    "reset_after",
    "503_before",
    "503_after",
    "hang_then_timeout",
    "truncated_reply",
)
#: Where a request is lost before it has an effect it is only repeated; after these nobody knows that it had one.
UNTOLD = ("kill_after", "reset_after")
#: Modes in which the request has its effect before the process hears of the fault, or although it never does.
WITH_EFFECT = {"kill_after", "reset_after", "503_after", "truncated_reply"}

_KIND = re.compile(r"\S+ [^/(?]*")


class KilledError(BaseException):
    """The process ended here: no handler of `Exception` sees it."""


@dataclass(frozen=True)
class Fault:
    """One fault: at which request of its process, from 1, and what happens."""

    at: int
    mode: str

    def __str__(self):
        return f"{self.mode}@{self.at}"


def killed():
    """End the process as far as one can within it."""
    raise KilledError


def kind_of(site):
    """Return the method and the queue, container or table of a site."""
    return _KIND.match(site)[0]


@dataclass
class Plan:
    """The faults of one process, counted over everything that it sends."""

    faults: Iterable[Fault] = ()
    #: Ends the process; in a forked child it really does.
    die: Callable[[], None] = killed
    #: Is told of every request: (stage, site, details).
    note: Callable[..., None] = lambda *_: None
    #: Which stage of the pipeline is at work.
    stage: str = "-"
    fired: set[Fault] = field(default_factory=set)
    count: int = 0
    #: Every request, by method and path.
    sites: list[str] = field(default_factory=list)

    def __post_init__(self):
        self._modes = {fault.at: fault for fault in self.faults}
        self._lock, self.is_dead = RLock(), False
        self._late: list[Callable[[], Any]] = []

    @classmethod
    def of(cls, at, mode, **options):
        """Return the plan of one fault."""
        return cls([Fault(at, mode)], **options)

    @property
    def kinds(self):
        """Every request by method and by the queue, container or table that it went to, parts of names left out."""
        return [kind_of(site) for site in self.sites]

    def transport(self):
        """Make the transport of one client: the factory that Connections takes."""
        return FaultyTransport(self)

    def revive(self):
        """Be the plan of the process that follows, which counts on."""
        self.is_dead, self.stage = False, "-"

    def take(self, site, **details):
        """Count a request and return what befalls it."""
        with self._lock:
            if self.is_dead:
                raise KilledError
            self.count += 1
            self.sites.append(site)
            fault = self._modes.get(self.count)
            self.note("request", self.stage, site, {**details, **({"fault": fault.mode} if fault else {})})
            if fault is None:
                return ""
            self.fired.add(fault)
            if fault.mode == "kill_before":
                self.end()
            return fault.mode

    def heard(self, site, status, *, is_late=False):
        """Note what a request was answered; one that hung is answered when its sender has given up."""
        self.note("late" if is_late else "reply", self.stage, site, status)

    def end(self):
        """End the process: nothing that still runs in it sends anything any more."""
        self.is_dead = True
        self.die()

    def put_off(self, act):
        """Have a request that hung take effect later, when its sender has long given up."""
        self._late.append(act)

    def catch_up(self):
        """Let what hung take effect now."""
        with self._lock:
            late, self._late = self._late, []
        for act in late:
            act()

    def around(self, site, act):
        """Do something on the bus, with the same faults; they are the library's errors there."""
        mode = self.take(site)
        if mode == "hang_then_timeout":
            self.put_off(act)
        elif not mode or mode in WITH_EFFECT:
            act()
        if mode == "kill_after":
            self.end()
        if mode:
            raise ServiceBusConnectionError(message=f"{mode}: planned")
        self.catch_up()
