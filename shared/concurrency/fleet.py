"""The rows that the fleet shares about its concurrency: the decision, governors, rules and processes.

All are in one table partition. A row has plain properties, and JSON only for nested values.

The fleet's partition in the table `decisions`. One request reads all of it, one transaction changes it.

Decides how many tasks may run over the fleet: the smallest limit of rules, services and budget, damped.

The same inputs give the same decision, so any decision can be replayed from its record. Makes no request.

It also decides about the urgent lane, a work queue that every task asks first while a row beside the decision says that
it holds something. The row is written before the messages, and says until when more may come. Only the tick removes it:
after that time, when the lane is empty and the row was not written again.
"""

import itertools
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from azure.core import MatchConditions
from azure.core.exceptions import ResourceModifiedError
from azure.data.tables import TableClient, TableTransactionError, UpdateMode

from shared.azure import Governor, GroupOperation, expecting_an_answer, write_group
from shared.concurrency.rules import BUILT_IN, Observation, Rules, lint
from shared.versions import decode

#: The quiet time after pressure lowered a decision: ten seconds and ten times the seconds per message, at most half a
#: minute.
QUIET: Final = timedelta(seconds=10)
LATENCIES: Final = 10
LONGEST_QUIET: Final = timedelta(seconds=30)
#: A change by a smaller part than this is not made: every change costs a row and moves the fleet.
SMALLEST_CHANGE: Final = 0.1
RULE, GOVERNOR, BUDGET = "rule", "governor", "budget"


@dataclass(frozen=True, slots=True)
class Decision:
    """The tasks over the fleet, and the reason."""

    tasks: int
    at: datetime
    #: The limit that each term gave. None: it gave no limit.
    terms: Mapping[str, int | None]
    #: The term that decided.
    binding: str
    reason: str
    rules_version: int = 0
    #: The last time that a term other than a rule lowered it.
    pressed_at: datetime | None = None
    #: The inputs, so that the decision can be replayed.
    observation: Observation | None = None

    @property
    def is_idle(self) -> bool:
        """True if it was made for empty queues, so that it says nothing about work that has come since."""
        return not self.tasks and (self.observation is None or not self.observation.depth)


def decide_tasks(  # noqa: PLR0913, PLR0917 - a decision has these inputs, and no object would make them fewer
    rules: Rules,
    observation: Observation,
    governors: Mapping[str, Governor],
    budget: int | None,
    previous: Decision | None,
    now: datetime,
) -> Decision:
    """Return the decision that holds from now on."""
    asked = rules.ask(observation)
    slowest = min(governors, key=lambda name: governors[name].share, default="")
    governor = governors[slowest].limit(rules.most) if slowest else rules.most
    terms = {RULE: asked.tasks, GOVERNOR: governor, BUDGET: budget}
    known = {name: term for name, term in terms.items() if term is not None}
    binding = min(known, key=lambda name: known[name])
    why = {
        RULE: asked.why,
        GOVERNOR: f"{slowest} pushes back, {governors[slowest].share:.0%} of the full rate" if slowest else "",
        BUDGET: f"the budget of the day allows {budget}",
    }
    fresh = Decision(known[binding], now, terms, binding, why[binding], rules.version, None, observation)
    return fresh if previous is None else _damp(fresh, previous)


def _damp(fresh: Decision, previous: Decision) -> Decision:
    """Limit the step from the previous decision: hold back a small change, and growth in quiet time."""
    if fresh.tasks < previous.tasks:
        # Other rules bind at once: the tasks that run must not stay above what an operator just wrote.
        if _is_small(fresh, previous) and fresh.rules_version == previous.rules_version:
            return _hold_back(fresh, previous, "too small a change")
        return replace(fresh, pressed_at=previous.pressed_at if fresh.binding == RULE else fresh.at)
    fresh = replace(fresh, pressed_at=previous.pressed_at)
    # Growth from 0 is not damped: work has come.
    if fresh.tasks == previous.tasks or not previous.tasks:
        return fresh
    if previous.pressed_at and fresh.at < previous.pressed_at + _quiet(fresh):
        return _hold_back(fresh, previous, f"quiet time after it was lowered at {previous.pressed_at:%H:%M:%S}")
    return _hold_back(fresh, previous, "too small a change") if _is_small(fresh, previous) else fresh


def _hold_back(fresh: Decision, previous: Decision, why: str) -> Decision:
    # Never above the limit of a term: holding back is for growth, and for a small fall.
    tasks = min([previous.tasks, *(term for name, term in fresh.terms.items() if name != RULE and term is not None)])
    return replace(fresh, tasks=tasks, pressed_at=previous.pressed_at, reason=f"{fresh.reason}; held at {tasks}: {why}")


def _is_small(fresh: Decision, previous: Decision) -> bool:
    # A step to 0 is never small. From a few tasks, every step is a large part.
    return bool(fresh.tasks) and abs(fresh.tasks - previous.tasks) < SMALLEST_CHANGE * previous.tasks


def _quiet(decision: Decision) -> timedelta:
    latency = (decision.observation.latency if decision.observation else None) or 0.0
    return min(LONGEST_QUIET, QUIET + timedelta(seconds=min(LATENCIES * latency, LONGEST_QUIET.total_seconds())))


#: The row announces messages for so long.
ANNOUNCED_FOR: Final = timedelta(minutes=5)
#: A row with less time left is written again. A put comes within a minute; the rest is for clocks that differ.
LEFT: Final = timedelta(minutes=3)


@dataclass(frozen=True, slots=True)
class LaneRow:
    """The row that says that the lane may hold something."""

    #: Until then messages may come.
    until: datetime
    etag: str = ""


def must_announce(lane: LaneRow | None, now: datetime) -> bool:
    """Check whether the row has to be written before a put, by any earlier reading of it.

    No reading is too old for this: a row is never removed before its time.
    """
    return lane is None or lane.until - now < LEFT


def may_forget(lane: LaneRow, depth: int, now: datetime) -> bool:
    """Check whether the row may be removed: the lane was empty after the row was read, and no put may still come."""
    return not depth and now >= lane.until


def is_late(deadline: datetime, messages: int, latency: float | None, tasks: int, now: datetime) -> bool:
    """Predict whether so many messages, each of which takes `latency` seconds, end after a deadline.

    False if nothing was measured yet, or no task was decided.
    """
    return bool(latency and tasks) and messages * (latency or 0.0) / tasks > (deadline - now).total_seconds()


#: A reading that says that a feeder lives is younger than this for the writer of a ready row.
VIEW_SECONDS: Final = 0.5
#: How long the row of a feeder holds without being written again.
FED_FOR: Final = timedelta(seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedRow:
    """The row of the feeder: the chunks that wait for their turn. Without it none do, but for those of this moment."""

    until: datetime
    since: datetime
    #: Draws the owner apart from others: the name of the process.
    by: str
    #: Chunks by room, at least.
    waiting: Mapping[str, int] = field(default_factory=dict)
    #: Of these, the chunks that are beyond the limit of their room.
    limited: Mapping[str, int] = field(default_factory=dict)
    #: Jobs by room, at least.
    jobs: Mapping[str, int] = field(default_factory=dict)
    #: Seconds of work that were put in the last minute, by room.
    served: Mapping[str, float] = field(default_factory=dict)
    window: int = 0
    #: Messages on the work queues, as last read.
    depth: int = 0
    #: When the job was accepted that waits longest.
    oldest: datetime | None = None
    #: Whether all that was put is noted in the rows of the jobs, so that the next feeder puts nothing twice.
    is_noted: bool = False

    @property
    def chunks(self) -> int:
        """The chunks that wait for the window alone. No task could have more of a limited room."""
        return sum(self.waiting.values()) - sum(self.limited.values())


Row: TypeAlias = dict[str, Any]
PARTITION: Final = "fleet"
DECISION, RULES, LANE, FEED = "decision", "rules", "lane", "feed"
GOVERNOR_ROW, WORKER_ROW, HALT_ROW = "governor|", "worker|", "halt|"
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
    return {
        **key(GOVERNOR_ROW + resource.replace("/", "|")),
        "share": governor.share,
        "times": governor.times,
        **moments,
    }


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


def feed_row(feed: FeedRow) -> Row:
    """Return the stored form of the feeder's row."""
    return {
        **key(FEED),
        "until": _text(feed.until),
        "since": _text(feed.since),
        "by": feed.by,
        "waiting": msgspec.json.encode(feed.waiting).decode(),
        "limited": msgspec.json.encode(feed.limited).decode(),
        "jobs": msgspec.json.encode(feed.jobs).decode(),
        "served": msgspec.json.encode(feed.served).decode(),
        "window": feed.window,
        "depth": feed.depth,
        "oldest": _text(feed.oldest),
        "is_noted": feed.is_noted,
    }


def feed_of(row: Mapping[str, Any]) -> FeedRow:
    """Read that row."""
    return FeedRow(
        until=datetime.fromisoformat(row["until"]),
        since=datetime.fromisoformat(row["since"]),
        by=row["by"],
        waiting=decode(row["waiting"], dict[str, int]),
        limited=decode(row["limited"], dict[str, int]),
        jobs=decode(row["jobs"], dict[str, int]),
        served=decode(row["served"], dict[str, float]),
        window=int(row["window"]),
        depth=int(row["depth"]),
        oldest=_moment(row.get("oldest")),
        is_noted=bool(row["is_noted"]),
    )


@dataclass(frozen=True, slots=True)
class RulesInForce:
    """The rules that the tick read, and the ETag of their blob."""

    rules: Rules
    text: str
    etag: str


def rules_row(in_force: RulesInForce) -> Row:
    """Return the rules' row beside the decision, so that a process that follows it needs no request for the rules."""
    return {**key(RULES), "text": in_force.text, "etag": in_force.etag, "version": in_force.rules.version}


class Resting(NamedTuple):
    """Messages of a room that are hidden after a failure, and until when."""

    messages: int
    until: datetime


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
    transactions: int = 0
    failed: int = 0
    #: The part of the full rate at which it works, by the slowest resource.
    share: float = 1.0
    #: By room.
    resting: Mapping[str, Resting] = field(default_factory=dict)
    #: That of its program. Empty before 0.4.0.
    version: str = ""


def worker_row(worker: Worker) -> Row:
    """Return the stored form of a process's report."""
    return {
        **key(WORKER_ROW + worker.name),
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
        # Left out where nothing failed, which is nearly always.
        **({"failed": worker.failed} if worker.failed else {}),
        **({"transactions": float(worker.transactions)} if worker.transactions else {}),
        **({"resting": msgspec.json.encode(worker.resting).decode()} if worker.resting else {}),
        **({"version": worker.version} if worker.version else {}),
    }


def _worker_of(row: Mapping[str, Any]) -> Worker:
    return Worker(
        name=row["RowKey"].removeprefix(WORKER_ROW),
        at=datetime.fromisoformat(row["at"]),
        started_at=datetime.fromisoformat(row["started_at"]),
        in_flight=int(row["in_flight"]),
        done=int(row["done"]),
        busy=float(row["busy"]),
        cpu=None if row["cpu"] < 0 else float(row["cpu"]),
        # A process of an earlier version reports none.
        chunks=int(row.get("chunks", 0)),
        stored=int(row.get("stored", 0)),
        transactions=int(row.get("transactions", 0)),
        failed=int(row.get("failed", 0)),
        share=float(row.get("share", 1.0)),
        resting=decode(row.get("resting", "{}"), dict[str, Resting]),
        version=row.get("version", ""),
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
    #: None: no job waits for its turn.
    feed: FeedRow | None = None
    #: By job: chunk messages with a lower number are dropped.
    halts: Mapping[str, int] = field(default_factory=dict)

    def living_feed(self, now: datetime) -> FeedRow | None:
        """Return the row of the feeder. None: it is dead, or no job waited since."""
        return self.feed if self.feed and self.feed.until > now else None

    def waiting(self, now: datetime) -> int:
        """Return the chunks that wait for the window. The row of a dead feeder counts no more."""
        feed = self.living_feed(now)
        return feed.chunks if feed else 0

    @property
    def rules(self) -> Rules:
        """The rules in force: the built-in ones if no operator wrote any."""
        return self.in_force.rules if self.in_force else BUILT_IN

    def resting(self, now: datetime) -> dict[str, int]:
        """Return by room how many messages are hidden after a failure."""
        found = Counter[str]()
        for worker in self.workers:
            found.update({room: one.messages for room, one in worker.resting.items() if one.until > now})
        return dict(found)

    def fresh(self, now: datetime) -> list[Worker]:
        """Return the processes that work now, by their last reports."""
        return [worker for worker in self.workers if now - worker.at <= FRESH]

    def of_before(self, version: str, now: datetime) -> list[Worker]:
        """Return the processes that work now and are of a release before this one."""
        return [worker for worker in self.fresh(now) if _numbers_of(worker.version) < _numbers_of(version)]

    def latency(self, now: datetime) -> float | None:
        """Return the seconds per message of the processes that work now, since they started. None: nothing is done."""
        fresh = self.fresh(now)
        done = sum(worker.done for worker in fresh)
        return sum(worker.busy for worker in fresh) / done if done else None


def _numbers_of(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())


def fleet_of(rows: list[Any], known: RulesInForce | None) -> Fleet:
    """Read the rows. Rules that are `known` already are not parsed again."""
    decision = next((row for row in rows if row["RowKey"] == DECISION), None)
    rules = next((row for row in rows if row["RowKey"] == RULES), None)
    lane = next((row for row in rows if row["RowKey"] == LANE), None)
    feed = next((row for row in rows if row["RowKey"] == FEED), None)
    return Fleet(
        feed=feed_of(feed) if feed else None,
        lane=lane_of(lane, str(lane.metadata["etag"])) if lane else None,
        decision=decision_of(decision) if decision else None,
        decision_etag=str(decision.metadata["etag"]) if decision else "",
        governors={
            row["RowKey"].removeprefix(GOVERNOR_ROW).replace("|", "/"): governor_of(row)
            for row in rows
            if row["RowKey"].startswith(GOVERNOR_ROW)
        },
        in_force=_in_force(rules, known) if rules else None,
        workers=[_worker_of(row) for row in rows if row["RowKey"].startswith(WORKER_ROW)],
        halts={
            row["RowKey"].removeprefix(HALT_ROW): int(row["halts"])
            for row in rows
            if row["RowKey"].startswith(HALT_ROW)
        },
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


#: The limit of a transaction, less the decision's own rows.
_MOST_GONE: Final = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetChange:
    """The changes of one tick."""

    #: None: it stays.
    decision: Decision | None = None
    governors: Mapping[str, Governor] = field(default_factory=dict)
    #: New rules, or, with `rules_gone`, their removal by an operator.
    in_force: RulesInForce | None = None
    rules_gone: bool = False
    #: Processes without a report for long.
    gone: Sequence[Worker] = ()

    @property
    def is_none(self) -> bool:
        """True if nothing changes."""
        return not (self.decision or self.governors or self.in_force or self.rules_gone or self.gone)


class FleetTable:
    """The reads and writes of the partition."""

    def __init__(self, table: TableClient) -> None:
        self._table = table

    def read(self, known: RulesInForce | None = None) -> Fleet:
        """Read the partition. Makes one request. `known` are rules that this caller has parsed before."""
        query = "PartitionKey eq @partition and RowKey lt @history"
        names = {"partition": PARTITION, "history": HISTORY}
        with expecting_an_answer("read the decision about concurrency"):
            return fleet_of(list(self._table.query_entities(query, parameters=names)), known)

    def report(self, worker: Worker) -> None:
        """Write the report of a process over its previous one."""
        with expecting_an_answer("report the work of this process"):
            self._table.upsert_entity(worker_row(worker), mode=UpdateMode.REPLACE)

    def report_slow(self, governors: Mapping[str, Governor]) -> None:
        """Report to the other processes that a resource pushed back.

        If two processes report at the same moment, the later write stays. That is right: both say that the resource
        pushed back, and both are newer than the row before them.
        """
        for resource, governor in governors.items():
            with expecting_an_answer(f"report that {resource} pushed back"):
                self._table.upsert_entity(governor_row(resource, governor), mode=UpdateMode.REPLACE)

    def announce(self, until: datetime) -> LaneRow:
        """Write that the urgent lane may hold something, and that more may come until then."""
        with expecting_an_answer("announce messages on the urgent lane"):
            written = self._table.upsert_entity(lane_row(until), mode=UpdateMode.REPLACE)
        return LaneRow(until, str(written["etag"]))

    def forget(self, lane: LaneRow) -> None:
        """Remove that row, unless it was written since."""
        with expecting_an_answer("note that the urgent lane is empty"), suppress(ResourceModifiedError):
            self._table.delete_entity(key(LANE), etag=lane.etag, match_condition=MatchConditions.IfNotModified)

    def note_feed(self, feed: FeedRow) -> None:
        """Write the feeder's row. Only who has the feeder's lease does."""
        with expecting_an_answer("note what waits for its turn"):
            self._table.upsert_entity(feed_row(feed), mode=UpdateMode.REPLACE)

    def forget_feed(self) -> None:
        """Remove that row. Only who has the feeder's lease does."""
        with expecting_an_answer("note that nothing waits for its turn"):
            # Without a condition, and gone is gone: the library takes a row that is missing for deleted.
            self._table.delete_entity(key(FEED))

    def halt(self, job: str, halts: int) -> None:
        """Write that chunk messages of the job with a lower number are dropped."""
        with expecting_an_answer(f"halt the messages of job {job!r}"):
            self._table.upsert_entity({**key(HALT_ROW + job), "halts": halts}, mode=UpdateMode.REPLACE)

    def lift(self, job: str) -> None:
        """Remove that row. One that is gone is no error."""
        with expecting_an_answer(f"let the messages of job {job!r} pass"):
            self._table.delete_entity(key(HALT_ROW + job))

    def commit(self, seen: Fleet, change: FleetChange) -> bool:
        """Write a tick's changes in one transaction. Return False if another tick was first: its decision stands.

        After a lost reply nothing is read back: the next tick starts from the rows as they are then.
        """
        operations = list(self._operations(seen, change))
        with expecting_an_answer("write the decision about concurrency"):
            try:
                write_group(self._table, operations)
            except TableTransactionError:
                return False
        return True

    def _operations(self, seen: Fleet, change: FleetChange) -> Iterator[GroupOperation]:
        replace = {"mode": UpdateMode.REPLACE}
        if change.decision is not None:
            columns = decision_row(change.decision)
            current = {**key(DECISION), **columns}
            if seen.decision is None:
                yield "create", current
            else:
                yield (
                    "update",
                    current,
                    {**replace, "etag": seen.decision_etag, "match_condition": MatchConditions.IfNotModified},
                )
            yield "create", {**key(history_key(change.decision.at, secrets.token_hex(4))), **columns}
        for resource, governor in change.governors.items():
            yield "upsert", governor_row(resource, governor), replace
        if change.in_force is not None:
            yield "upsert", rules_row(change.in_force), replace
        if change.rules_gone:
            yield "delete", key(RULES)
        for worker in change.gone[:_MOST_GONE]:
            yield "delete", key(WORKER_ROW + worker.name)

    def history(self, most: int) -> list[Decision]:
        """Read the last decisions, the newest first."""
        names = {"partition": PARTITION, "history": HISTORY}
        with expecting_an_answer("read the decisions about concurrency"):
            found = self._table.query_entities(
                "PartitionKey eq @partition and RowKey ge @history", parameters=names, results_per_page=most
            )
            return [decision_of(row) for row in itertools.islice(found, most)]
