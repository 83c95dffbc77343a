"""Examples of the documents, word for word, each with the effect that somebody who types it must see.

They are typed in this order, on one stack that begins empty: each goes on with what those before it left.
"""

import json
from dataclasses import dataclass
from typing import Any

from tests.outside import checker
from tests.waiting import until

USAGE = b"""{"account": "alice", "plan": "basic", "quantity": "12.5"}
{"account": "bob", "plan": "premium", "quantity": "3"}
{"account": "carol", "plan": "no-such-plan", "quantity": "1"}
"""


@dataclass
class World:
    """What an effect may look at, and what the command printed."""

    people: Any
    said: str = ""

    def gate(self):
        """Return the gate `nightly`."""
        return self.people.operator.asks("gate", "status", "nightly")

    def job(self, name):
        """Return a job by its id, or nothing."""
        operator = self.people.operator
        names = [job["job"] for job in operator.asks("jobs", "list", "--limit", 1000)["jobs"]]
        return operator.asks("jobs", "show", name) if name in names else {}

    def becomes(self, name, state):
        """Whether a job comes to a state."""
        return until(lambda: self.job(name).get("state") == state)

    def parked(self, **wanted):
        """Return the groups of what is parked that say so."""
        groups = self.people.operator.asks("parked", "list")["groups"]
        return [one for one in groups if wanted.items() <= one.items()]


def _is_first_held(world):
    return world.becomes("first", "held") and world.job("first")["items"] == 3


def _is_first_right(world):
    job = world.job("first")
    wrong = checker.check(world.people.operator.storage, "first", checker.lines_of(USAGE), first_id=job["first_id"])
    return job["state"] == "complete" and not wrong


def _prints(*words):
    return lambda world: all(word in world.said for word in words)


def _opened(epoch):
    return lambda world: (world.gate()["state"], world.gate()["epoch"]) == ("open", epoch)


def _holds(state):
    """Whether a job that names the gate now comes to this state."""

    def look(world):
        name = f"after-{world.gate()['epoch']}-{state}"
        usage = {"account": "a", "plan": "basic", "quantity": "1"}
        world.people.publisher.send({"sluice": {"job": name, "gate": "nightly", "items": [usage]}})
        return world.becomes(name, state)

    return look


#: Ends with status 1, as a search that finds nothing does.
NOTHING_FOUND = "sluice parked list --reason delivered_too_often"
#: (document, what stands there, whether its effect is there)
EXAMPLES = [
    (
        "docs/first-job.md",
        "sluice submit usage.ndjson --job first --workload billing --gate nightly --sum quantity",
        _is_first_held,
    ),
    ("docs/first-job.md", "sluice gate list", _prints("nightly", "1")),
    ("docs/scaling.md", "sluice tune plan nightly --minutes 10", _prints("drain_work")),
    ("docs/first-job.md", 'sluice gate open nightly --once --yes --why "first try"', _opened(1)),
    ("docs/first-job.md", "sluice jobs watch first", _is_first_right),
    ("docs/first-job.md", "sluice cost job first", _prints("first")),
    ("docs/first-job.md", "sluice jobs output first ", _prints("alice", "bob")),
    ("docs/first-job.md", "sluice jobs output first --rejected", _prints("no-such-plan")),
    ("docs/first-job.md", "sluice ids explain transactions 1", _prints("1")),
    (
        "docs/operating.md",
        "sluice doctor",
        lambda world: not [one for one in world.people.operator.asks("doctor")["findings"] if one["problem"]],
    ),
    ("docs/operating.md", "sluice jobs list", _prints("first", "billing")),
    ("docs/operating.md", "sluice tune show", _prints("tasks")),
    ("docs/operating.md", "sluice cost day", _prints("in all")),
    ("docs/operating.md", "sluice gate status nightly", _prints("open", "first try")),
    ("docs/operating.md", 'sluice gate close nightly --why "until tomorrow"', _holds("held")),
    (
        "docs/operating.md",
        'sluice gate open nightly --why "the books are closed" --yes',
        lambda world: world.becomes("after-1-held", "complete") and _holds("complete")(world),
    ),
    # Opened to stay so: the first opening closes itself after a while.
    ("docs/gate.md", "sluice gate wait nightly --timeout 3600", _prints("nightly")),
    (
        "docs/operating.md",
        'sluice gate close nightly --why "draining for the new version"',
        lambda world: world.gate()["state"] == "closed",
    ),
    ("docs/operating.md", "sluice jobs list --limit 100", _prints("after-1-held")),
    ("docs/operating.md", "sluice jobs watch first --timeout 300", _prints("complete")),
    ("docs/gate.md", 'sluice gate open nightly --why "the books are closed"', _opened(3)),
    ("docs/gate.md", "sluice gate close nightly", _holds("held")),
    ("docs/gate.md", "sluice gate status nightly", _prints("nightly")),
    ("docs/gate.md", "sluice gate list", _prints("nightly")),
    ("docs/operating.md", NOTHING_FOUND, _prints("nothing is parked of delivered_too_often")),
    ("docs/parked.md", "sluice parked list", lambda world: world.parked(reason="payload_missing", entries=2)),
    ("docs/parked.md", "sluice parked show JOB KEY", _prints("payload_missing", "late")),
    ("docs/operating.md", "sluice parked replay FINGERPRINT --dry-run", _prints("2 to replay")),
    (
        "docs/parked.md",
        "sluice parked replay FINGERPRINT",
        lambda world: world.becomes("late-0", "complete") and world.becomes("late-1", "complete"),
    ),
    (
        "docs/operating.md",
        'sluice parked replay FINGERPRINT --why "memory was raised" --yes',
        lambda world: world.becomes("late-more", "complete") and not world.parked(reason="payload_missing"),
    ),
    (
        "docs/parked.md",
        'sluice parked discard FINGERPRINT --why "published again"',
        lambda world: "1 of 1" in world.said and not world.parked(reason="unknown_workload"),
    ),
    ("docs/concurrency.md", "sluice tune show", _prints("tasks")),
    ("docs/concurrency.md", "sluice tune explain", _prints("reason")),
    ("docs/concurrency.md", "sluice tune rules check docs/rules.sample.yaml", _prints("rules.sample.yaml")),
    ("docs/concurrency.md", "sluice tune rules put docs/rules.sample.yaml", _prints("1")),
    ("docs/concurrency.md", "sluice tune rules get --version 1", _prints("rules")),
    ("docs/concurrency.md", "sluice tune capacity --transactions 10000000", _prints("tasks")),
    ("docs/cost.md", "sluice cost job first", _prints("first")),
    ("docs/cost.md", "sluice cost month", _prints("month")),
    ("docs/cost.md", "sluice cost day", _prints("in all")),
    ("docs/cost.md", "sluice cost idle", _prints("the app", "known")),
    ("docs/cost.md", "sluice cost compare", _prints("push")),
    ("docs/cost.md", "sluice cost example", _prints("Sluice")),
    ("docs/cost.md", "sluice cost prices", lambda world: "queue" in json.dumps(json.loads(world.said))),
]
