"""Drops every hostile case in one go among honest jobs, and judges each by what an operator sees of it."""

import json
import random
import re
import uuid
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from tests.outside import checker, collisions, lines, messages, payloads
from tests.outside.case import Ends, Parked, Waits, told
from tests.waiting import until

#: Seconds between two questions of an operator, each of which keeps the app from its work.
PAUSE = 1.0
_DONE = re.compile(r"\[host\] (\w+) (?:succeeded|failed) \(id=([0-9a-f-]+), (\d+) ms\)")
_TOLD = re.compile(r"\[\w+ ([0-9a-f-]+)\] sluice\.(message\.parked|submission\.accepted) (\{.*\})")
#: A delivery that failed. One that a slow process gave back is none, nor one to which a slow storage did not answer.
_FAILED = re.compile(r"\[host\] accept_submission failed \(id=[0-9a-f-]+, \d+ ms\): (?!.*StorageUnavailable).*")


@dataclass
class Came:
    """What came of a campaign."""

    cases: list
    problems: list[str]
    #: Milliseconds of the delivery that decided, by case.
    took: dict[str, int] = field(default_factory=dict)
    #: Deliveries that failed, and so are tried again.
    failed: list[str] = field(default_factory=list)
    peak_mib: int = 0


def all_cases():
    """Return every case."""
    return [case for family in (messages, payloads, lines, collisions) for case in family.cases()]


def canary(people, name, items=1_500):
    """Drop an honest job and return its name and its lines."""
    plans = ["basic", "standard", "premium", "gulf", "nobody's"]
    transactions = [
        json.dumps({"account": f"a-{n % 9}", "plan": plans[n % 5], "quantity": f"{n % 70}.{n % 100:02}"}).encode()
        for n in range(items)
    ]
    people.publisher.put(f"honest/{name}", b"\n".join(transactions))
    people.publisher.send({"sluice": {"job": name, "payload": {"blob": f"honest/{name}"}}})
    return name, transactions


def run(people, cases, seed=1):
    """Drop the cases and return what came of them."""
    cases = list(cases)
    mark, dice = uuid.uuid4().hex[:6], random.Random(seed)
    jobs = {case.name: f"{mark}-{number:03}" for number, case in enumerate(cases)}
    assert len(jobs) == len(cases), "two cases have the same name"
    instances = people.stack.host.instance_pids()
    honest = [canary(people, f"{mark}-before")]
    for case in cases:
        if case.before is not None:
            _put(people.publisher, case, jobs[case.name])
            people.publisher.send(told(case.before, jobs[case.name]))
    waiting = {jobs[case.name] for case in cases if case.before is not None}
    until(lambda: _states(people).keys() >= {honest[0][0], *waiting} and _settled(people, waiting), PAUSE)
    sent, order = {}, dice.sample(cases, len(cases))
    for number, case in enumerate(order):
        if number % (len(order) // 3 + 1) == 0:
            honest.append(canary(people, f"{mark}-among-{number}"))
        sent[case.name] = _drop(people.publisher, case, jobs[case.name])
    honest.append(canary(people, f"{mark}-after"))
    seen = _Seen(people, sent, jobs, sum(not isinstance(case.end, Ends) for case in cases))
    until(seen.has_most, PAUSE)
    until(lambda: not seen.look(cases), PAUSE)
    problems = seen.problems
    for name, transactions in honest:
        found = people.operator.ends(name)
        problems += checker.check(people.operator.storage, name, transactions, first_id=found["first_id"])
    if people.stack.host.instance_pids() != instances:
        problems.append("a process of the app ended")
    return Came(cases, problems, seen.took(), seen.failed(), people.peak_mib())


def _put(publisher, case, job):
    for name, content in case.blobs.items():
        publisher.put(told(name, job), content)


def _drop(publisher, case, job):
    if case.before is None:
        _put(publisher, case, job)
    return publisher.send(case.dropped(job)).lower()


def _states(people):
    return {one["job"]: one for one in people.operator.asks("jobs", "list", "--limit", 1000)["jobs"]}


def _whole(people, job):
    """Return everything about a job. The list has no sums."""
    return people.operator.asks("jobs", "show", job)


def _settled(people, waiting):
    return all(one["chunks"]["all"] for job, one in _states(people).items() if job in waiting)


class _Seen:
    """What an operator sees of the cases: parked entries, jobs, rejected lines."""

    def __init__(self, people, sent, jobs, wanted):
        self._people, self._sent, self._jobs = people, sent, jobs
        self._entries, self._states, self._wanted = [], {}, wanted

    def has_most(self):
        """Whether as many entries are there as must be: one question instead of one for each cause."""
        groups = self._people.operator.asks("parked", "list")["groups"]
        return sum(group["entries"] for group in groups) >= self._wanted

    def look(self, cases):
        """Return, and keep, what is not as it must be by now."""
        operator = self._people.operator
        groups = operator.asks("parked", "list")["groups"]
        lists = [operator.asks("parked", "list", group["fingerprint"])["entries"] for group in groups]
        self._entries = [entry for entries in lists for entry in entries]
        self._states = _states(self._people)
        self._reasons = defaultdict(set)
        for entry in self._entries:
            for name in self._names(entry):
                self._reasons[name].add(entry["reason"])
        self.problems = [f"{case.name}: {problem}" for case in cases if (problem := self._problem(case))]
        return self.problems

    def took(self):
        """Return how long the delivery took that decided each case, in milliseconds."""
        log = self._people.stack.host.log.read_text()
        durations = {found[2]: int(found[3]) for found in _DONE.finditer(log)}
        by_key, by_message = {}, {}
        for call, kind, said in _TOLD.findall(log):
            fields = json.loads(said)
            if kind == "message.parked":
                by_key[fields["job"], fields["key"]] = durations.get(call, 0)
            else:
                by_message[fields["message_id"].lower()] = durations.get(call, 0)
        for entry in self._entries:
            told_as = entry.get("claimed") or entry["job"], entry["key"]
            if told_as in by_key:
                by_message[entry["message_id"].lower()] = by_key[told_as]
        return {name: by_message[message] for name, message in self._sent.items() if message in by_message}

    def failed(self):
        """Return what the host logged of each delivery that decided nothing."""
        return _FAILED.findall(self._people.stack.host.log.read_text())

    def _names(self, entry):
        return {entry["message_id"].lower(), entry["job"], entry.get("claimed")}

    def _problem(self, case):
        job = self._jobs[case.name]
        reasons = self._reasons[self._sent[case.name]] | self._reasons[job]
        match case.end:
            case Parked(reason):
                return "" if reasons == {reason} else f"it is parked as {sorted(reasons)}, not as {reason}"
            case Waits(reason):
                is_so = reasons == {reason} and self._state(job) == "held"
                return "" if is_so else f"it is parked as {sorted(reasons)}, its victim is {self._state(job)}"
            case Ends() as end:
                return self._how_it_ends(job, end, reasons)
        raise AssertionError(case.end)

    def _state(self, job):
        return self._states[job]["state"] if job in self._states else None

    def _how_it_ends(self, job, end, reasons):
        if self._state(job) != end.state:
            return f"the job is {self._state(job)}, not {end.state}; parked {sorted(reasons)}"
        found = _whole(self._people, job)
        counts = found["accepted"]["items"], found["rejected"]["items"]
        if counts != (end.accepted, len(end.rejected)):
            return f"{counts[0]} accepted and {counts[1]} rejected, not {end.accepted} and {len(end.rejected)}"
        rejected = self._people.operator.rejected(job) if end.rejected else {}
        said = {number - found["first_id"]: reason for number, reason in rejected.items()}
        return "" if said == end.rejected else f"rejected are {said}, not {end.rejected}"


def families(came):
    """Yield a row of each family: what, how many, the reasons, the slowest delivery."""
    for family in dict.fromkeys(case.family for case in came.cases):
        mine = [case for case in came.cases if case.family == family]
        reasons = Counter(case.end.reason for case in mine if not isinstance(case.end, Ends))
        reasons.update(
            reason for case in mine if isinstance(case.end, Ends) for reason in set(case.end.rejected.values())
        )
        slowest = max((came.took[case.name] for case in mine if case.name in came.took), default=0)
        yield family, len(mine), sorted(reasons), slowest
