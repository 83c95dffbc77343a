"""The rows that the fleet shares about its concurrency: the decision, governors, rules and processes.

All are in one table partition. A row has plain properties, and JSON only for nested values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

import msgspec

from shared.azure import Governor
from shared.concurrency.decide import Decision, LaneRow
from shared.concurrency.rules import BUILT_IN, Observation, Rules
from shared.concurrency.rules_text import lint
from shared.decoding import decode

Row: TypeAlias = dict[str, Any]
PARTITION: Final = "fleet"
DECISION, RULES, LANE = "decision", "rules", "lane"
GOVERNOR, WORKER = "governor|", "worker|"
#: Sorts after all rows that every read takes.
HISTORY: Final = "~"
#: A later moment sorts before an earlier one.
_END_OF_TIME: Final = 10**16


def key(row_key: str) -> Row:
    """Return the keys of a row."""
    return {"PartitionKey": PARTITION, "RowKey": row_key}


def history_key(at: datetime, nonce: str) -> str:
    """Return the key of a decision in the history, which sorts the newest first."""
    return f"{HISTORY}{_END_OF_TIME - int(at.timestamp() * 1e6):016}|{nonce}"


def decision_row(decision: Decision) -> Row:
    """Return the stored form of a decision."""
    return {
        "tasks": decision.tasks,
        "at": _text(decision.at),
        "terms": msgspec.json.encode(decision.terms).decode(),
        "binding": decision.binding,
        "reason": decision.reason[:1000],
        "rules_version": decision.rules_version,
        "pressed_at": _text(decision.pressed_at),
        "observation": msgspec.json.encode(decision.observation).decode(),
    }


def decision_of(row: Mapping[str, Any]) -> Decision:
    """Read the decision of a row."""
    return Decision(
        tasks=int(row["tasks"]),
        at=datetime.fromisoformat(row["at"]),
        terms=decode(row["terms"], dict[str, int | None]),
        binding=row["binding"],
        reason=row["reason"],
        rules_version=int(row["rules_version"]),
        pressed_at=_moment(row.get("pressed_at")),
        observation=decode(row["observation"], Observation | None),
    )


def governor_row(resource: str, governor: Governor) -> Row:
    """Return the stored form of a governor."""
    moments = {name: _text(getattr(governor, name)) for name in ("slowed_at", "quiet_until", "seen_at")}
    # A row key must not hold a slash.
    return {**key(GOVERNOR + resource.replace("/", "|")), "share": governor.share, "times": governor.times, **moments}


def governor_of(row: Mapping[str, Any]) -> Governor:
    """Read the governor of a row."""
    moments = {name: _moment(row.get(name)) for name in ("slowed_at", "quiet_until", "seen_at")}
    return Governor(share=float(row["share"]), times=int(row["times"]), **moments)


def lane_row(until: datetime) -> Row:
    """Return the row that says that the urgent lane may hold something."""
    return {**key(LANE), "until": _text(until)}


def lane_of(row: Mapping[str, Any], etag: str) -> LaneRow:
    """Read that row."""
    return LaneRow(datetime.fromisoformat(row["until"]), etag)


@dataclass(frozen=True, slots=True)
class RulesInForce:
    """The rules that the tick read, and the ETag of their blob."""

    rules: Rules
    text: str
    etag: str


def rules_row(in_force: RulesInForce) -> Row:
    """Return the rules' row beside the decision, so that a process that follows it needs no request for the rules."""
    return {**key(RULES), "text": in_force.text, "etag": in_force.etag, "version": in_force.rules.version}


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """The report of one process: its counts since it started."""

    name: str
    at: datetime
    started_at: datetime
    in_flight: int
    done: int
    busy: float
    cpu: float | None = None
    chunks: int = 0
    stored: int = 0
    #: The part of the full rate at which it works, by the slowest resource.
    share: float = 1.0


def worker_row(worker: Worker) -> Row:
    """Return the stored form of a process's report."""
    return {
        **key(WORKER + worker.name),
        "at": _text(worker.at),
        "started_at": _text(worker.started_at),
        "in_flight": worker.in_flight,
        "done": worker.done,
        "busy": worker.busy,
        "cpu": -1.0 if worker.cpu is None else worker.cpu,
        "chunks": worker.chunks,
        # A whole number of a table has 32 bits.
        "stored": float(worker.stored),
        "share": worker.share,
    }


def _worker_of(row: Mapping[str, Any]) -> Worker:
    return Worker(
        name=row["RowKey"].removeprefix(WORKER),
        at=datetime.fromisoformat(row["at"]),
        started_at=datetime.fromisoformat(row["started_at"]),
        in_flight=int(row["in_flight"]),
        done=int(row["done"]),
        busy=float(row["busy"]),
        cpu=None if row["cpu"] < 0 else float(row["cpu"]),
        # A process of an earlier version reports none.
        chunks=int(row.get("chunks", 0)),
        stored=int(row.get("stored", 0)),
        share=float(row.get("share", 1.0)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The content of the partition, as one request read it."""

    decision: Decision | None = None
    decision_etag: str = ""
    governors: Mapping[str, Governor] = field(default_factory=dict)
    in_force: RulesInForce | None = None
    workers: Sequence[Worker] = ()
    #: None: the urgent lane holds nothing.
    lane: LaneRow | None = None

    @property
    def rules(self) -> Rules:
        """The rules in force: the built-in ones if no operator wrote any."""
        return self.in_force.rules if self.in_force else BUILT_IN

    def fresh(self, now: datetime) -> list[Worker]:
        """Return the processes that work now, by their last reports."""
        return [worker for worker in self.workers if now - worker.at <= FRESH]

    def latency(self, now: datetime) -> float | None:
        """Return the seconds per message of the processes that work now, since they started. None: nothing is done."""
        fresh = self.fresh(now)
        done = sum(worker.done for worker in fresh)
        return sum(worker.busy for worker in fresh) / done if done else None


def fleet_of(rows: list[Any], known: RulesInForce | None) -> Fleet:
    """Read the rows. Rules that are `known` already are not parsed again."""
    decision = next((row for row in rows if row["RowKey"] == DECISION), None)
    rules = next((row for row in rows if row["RowKey"] == RULES), None)
    lane = next((row for row in rows if row["RowKey"] == LANE), None)
    return Fleet(
        lane=lane_of(lane, str(lane.metadata["etag"])) if lane else None,
        decision=decision_of(decision) if decision else None,
        decision_etag=str(decision.metadata["etag"]) if decision else "",
        governors={
            row["RowKey"].removeprefix(GOVERNOR).replace("|", "/"): governor_of(row)
            for row in rows
            if row["RowKey"].startswith(GOVERNOR)
        },
        in_force=_in_force(rules, known) if rules else None,
        workers=[_worker_of(row) for row in rows if row["RowKey"].startswith(WORKER)],
    )


def _in_force(row: Mapping[str, Any], known: RulesInForce | None) -> RulesInForce | None:
    if known is not None and known.etag == row["etag"]:
        return known
    rules = lint(row["text"]).rules
    # Only valid rules are stored here. But another version of the app may know words that this one does not.
    return RulesInForce(rules, row["text"], row["etag"]) if rules else None


def _text(moment: datetime | None) -> str:
    return "" if moment is None else moment.astimezone(UTC).isoformat()


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


#: Seconds between two reads of a process that has work.
LOOK_EVERY: Final = 10.0
#: A process without a report for this long has no work.
FRESH: Final = timedelta(seconds=3 * LOOK_EVERY)
