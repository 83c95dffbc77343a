"""States that faults are meant to lead to, and whether a run passed through them.

A campaign that never came to one of them has not tried what it claims to have tried, whatever it found.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from tests.faults.plan import MODES, WITH_EFFECT

#: In the journal: from here on the bus delivers everything once more, so that nothing is remarkable any more.
REPEATED = "repeated"
_REFUSED = {400, 404, 409, 412}


@dataclass(frozen=True)
class Told:
    """What the journal of a run says."""

    entries: list

    def faults(self, *modes):
        """Yield stage and site of the requests that met one of these faults."""
        return ((stage, site) for stage, site, details in self._of("request") if details.get("fault") in modes)

    def has(self, stage, begin):
        """Whether a stage made such a request."""
        return any(where == stage and site.startswith(begin) for where, site, _ in self._of("request"))

    def replies(self, kind="reply"):
        """Yield stage, site and status of what was answered."""
        return self._of(kind)

    def is_refused(self, stage, begin, kind="reply"):
        """Whether such a request was refused."""
        return any(
            where == stage and site.startswith(begin) and status in _REFUSED
            for where, site, status in self.replies(kind)
        )

    def runs(self):
        """Return the first ids of the chunks that were computed."""
        return [first for (first,) in self._of("run")]

    def notes(self, kind):
        """Return what else was noted of a kind."""
        return list(self._of(kind))

    def _of(self, kind):
        return (entry[1:] for entry in self.entries if entry[0] == kind)


def _repeated_and_refused(told):
    """The library sends a PUT or a DELETE again whose reply was lost, and is refused by its own first one."""
    last = ""
    for kind, *entry in told.entries:
        if kind == "request":
            last = entry[1] if entry[2].get("fault") in WITH_EFFECT else last if entry[1] == last else ""
        elif kind == "reply" and entry[1] == last and entry[2] in _REFUSED:
            return True
    return False


def _told_twice(told):
    sent = [(kind, body) for _, _, kind, body, *_ in told.notes("sent")]
    return len({body for kind, body in sent if kind == "completed"}) < sum(kind == "completed" for kind, _ in sent)


def _next_revision(told):
    return any(kind == "completed" and '"revision":1' not in body for _, _, kind, body, *_ in told.notes("sent"))


def _second_process(told):
    """A fault met the process that went on where another had ended."""
    modes = [details["fault"] for _, _, details in told.notes("request") if "fault" in details]
    return any(first.startswith("kill") for first, _ in pairwise(modes))


STATES: dict[str, Callable[[Told], bool]] = {
    "a process ended before a request": lambda told: any(told.faults("kill_before")),
    "a process ended after a request took effect": lambda told: any(told.faults("kill_after")),
    "a request that was repeated was refused by its own first sending": _repeated_and_refused,
    "a table transaction took effect and its reply was lost": lambda told: any(
        site == "POST $batch" for _, site in told.faults("reset_after", "503_after", "truncated_reply")
    ),
    "a request took effect after its sender had given up": lambda told: any(
        status not in _REFUSED for _, _, status in told.replies("late")
    ),
    "a request that came too late was refused": lambda told: any(
        status in _REFUSED for _, _, status in told.replies("late")
    ),
    "a job was inserted that was there": lambda told: told.is_refused("accept", "POST jobs"),
    "a table transaction was refused: others were first": lambda told: any(
        site == "POST $batch" and status in _REFUSED for _, site, status in told.replies()
    ),
    "a work or submission message was delivered again": lambda told: bool(told.notes("delivered again")),
    "the receipt of a message was no longer good": lambda told: told.is_refused("host", "DELETE"),
    "a result was stored that was there": lambda told: told.is_refused("process", "PUT results"),
    "a stored result was told again, and its chunk was not run": lambda told: any(
        stage == "process" and site.startswith("GET results") and status not in _REFUSED
        for stage, site, status in told.replies()
    ),
    "a result that was credited came again and was dropped": lambda told: any(
        duplicates for _, duplicates, _ in told.notes("settled")
    ),
    "results were written together that were there": lambda told: told.is_refused("settle", "PUT results"),
    "a chunk was computed again": lambda told: len(set(told.runs())) < len(told.runs()),
    "an output was made that was there": lambda told: told.is_refused("finish", "PUT outputs"),
    "a segment was merged that was merged": lambda told: any(
        where == "finish" and site.startswith("PUT results") and "/segment-" in site and status in _REFUSED
        for where, site, status in told.replies()
    ),
    "a shard was written that was written": lambda told: any(
        where == "finish" and site.startswith("PUT results") and "/shard-" in site and status in _REFUSED
        for where, site, status in told.replies()
    ),
    "a completion was announced twice": _told_twice,
    "the tick put chunks again": lambda told: told.has("tick", "POST work-00/messages"),
    "the tick announced a completion": lambda told: told.has("tick", "SEND job-events"),
    "the tick released what was held": lambda told: told.has("tick", "DELETE held"),
    "the tick parked what a host had given up": lambda told: told.has("tick", "POST parked"),
    "the host gave a message up": lambda told: bool(told.notes("poisoned")),
    "something was parked that was parked": lambda told: any(
        told.is_refused(stage, "POST parked") for stage in ("accept", "process", "park", "tick")
    ),
    "a replayed chunk made a new revision": _next_revision,
}
#: The row by which every process drops the messages of a job.
_HALT = "decisions(PartitionKey='fleet',RowKey='<"
#: Of the runs of what people do with jobs.
ACT_STATES: dict[str, Callable[[Told], bool]] = {
    **{
        name: STATES[name]
        for name in (
            "a process ended before a request",
            "a process ended after a request took effect",
            "a request that was repeated was refused by its own first sending",
            "a table transaction took effect and its reply was lost",
            "a request took effect after its sender had given up",
            "a request that came too late was refused",
            "a work or submission message was delivered again",
            "a completion was announced twice",
            "the tick put chunks again",
            "a replayed chunk made a new revision",
        )
    },
    "a person's act met the fault": lambda told: any(stage == "act" for stage, _ in told.faults(*MODES)),
    "the tick wrote the row that drops a job's messages": lambda told: told.has("tick", f"PUT {_HALT}"),
    "the tick removed that row": lambda told: told.has("tick", f"DELETE {_HALT}"),
}
_SENT = ("SEND order-events", "SEND seats-events", "SEND seat-commands")


def _came_twice(told):
    """A message of the bus was delivered again, because its receiver failed or ended."""
    delivered = [name for (name,) in told.notes("delivered")]
    return len(set(delivered)) < len(delivered)


#: Of the runs of registration.
ORDER_STATES: dict[str, Callable[[Told], bool]] = {
    **{
        name: STATES[name]
        for name in (
            "a process ended before a request",
            "a process ended after a request took effect",
            "a request that was repeated was refused by its own first sending",
            "a table transaction took effect and its reply was lost",
            "a request took effect after its sender had given up",
            "a request that came too late was refused",
            "a table transaction was refused: others were first",
            "a work or submission message was delivered again",
        )
    },
    "a message of the bus was delivered again": _came_twice,
    "a home's events were sent by the tick": lambda told: any(told.has("tick", site) for site in _SENT),
    "a home's events were sent again by a message that came again": lambda told: (
        any(told.has(stage, site) for stage in ("sell", "hear", "payment") for site in _SENT) and _came_twice(told)
    ),
    "a row of a view was written that others had written": lambda told: told.is_refused("project", "POST $batch"),
}
#: Only where a second fault may come.
OF_TWO: dict[str, Callable[[Told], bool]] = {
    "a process that followed one that had ended met a fault": _second_process,
}


def sighted(entries):
    """Return the states that a run passed through, from its journal since the first fault could happen."""
    ends = [at for at, entry in enumerate(entries) if entry[0] == REPEATED]
    told = Told(entries[: ends[0]] if ends else entries)
    return {name for name, is_reached in {**STATES, **ACT_STATES, **ORDER_STATES, **OF_TWO}.items() if is_reached(told)}
