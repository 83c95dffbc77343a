"""The tick's part: sample the queues, decide, write the changes, record. It does nothing while no job is open.

The trace: the arrivals on the work queues over time, one JSON line per stretch of time, for replay and forecasts. It is
made from the points of ticks (`shared/watch`).

The first line is the header. The format is in docs/concurrency.md. Times only move forward: of two stretches of one
time, the first counts.

Makes an observation from two samples of the queues and from the reports of the processes.

`QueueDepths` samples the queues: one request per queue, and one more per queue with messages for the age of the oldest
message. The rest makes no request.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import msgspec
from azure.storage.queue import QueueClient

from shared.azure import Governor, Pushback, expecting_an_answer, governors_of_work
from shared.clock import Clock
from shared.concurrency.fleet import (
    ANNOUNCED_FOR,
    BUDGET,
    Decision,
    Fleet,
    FleetChange,
    FleetTable,
    RulesInForce,
    Worker,
    decide_tasks,
    may_forget,
)
from shared.concurrency.rules import Observation, RuleInput, Rules, RulesBlob, Unchanged, lint
from shared.errors import TraceRefusedError
from shared.telemetry import events, tell
from shared.versions import decode
from shared.watch import RULES, Hour, NeedKind, Point, TickNeeds, list_points

VERSION: Final = 1


class TraceHeader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first line."""

    trace: int = VERSION
    #: "recorded", or "synthetic" with the random seed from which it can be made again.
    what: str = "recorded"
    seed: int | None = None
    note: str = ""


class Stretch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The traffic from `at` on, for `seconds`. The arrivals are spread evenly over them, or all come at once if it is 0."""

    at: datetime
    seconds: float = 0.0
    arrived: int = 0
    drained: int = 0
    #: The depth at its end.
    depth: int = 0
    tasks: int = 0
    oldest_age: float | None = None
    #: Seconds of work for one message.
    latency: float | None = None
    cpu: float | None = None
    payload_bytes: float | None = None
    in_flight: int | None = None
    #: The term that decided about the tasks.
    binding: str = ""
    #: Processes that worked.
    processes: int = 0
    transactions: int = 0
    #: Messages that failed, and came again.
    failed: int = 0


class Trace(msgspec.Struct, frozen=True):
    """A header and its stretches."""

    header: TraceHeader
    stretches: list[Stretch]


_Part = TypeVar("_Part", TraceHeader, Stretch)
_encoder = msgspec.json.Encoder()


def line(part: TraceHeader | Stretch) -> bytes:
    """Return one line of a trace."""
    return _encoder.encode(part) + b"\n"


def write(trace: Trace) -> bytes:
    """Encode the trace in its stored form."""
    return b"".join([line(trace.header), *map(line, trace.stretches)])


def read(lines: Iterable[bytes | str]) -> Trace:
    """Read a trace, or raise TraceRefusedError naming the invalid line."""
    numbered = ((number, text) for number, text in enumerate(lines, 1) if text.strip())
    header = _decode_line(next(numbered, (1, b"")), TraceHeader)
    if header.trace != VERSION:
        raise TraceRefusedError(f"the trace has version {header.trace}, this Sluice reads version {VERSION}")
    return Trace(header, list(_forward(_decode_line(pair, Stretch) for pair in numbered)))


_WORDS: Final = {TraceHeader: "header", Stretch: "stretch"}


def _decode_line(numbered: tuple[int, bytes | str], kind: type[_Part]) -> _Part:
    number, text = numbered
    try:
        return decode(text, kind)
    except msgspec.DecodeError as error:
        raise TraceRefusedError(f"line {number} is not a valid {_WORDS[kind]} of a trace: {error}") from error


def _forward(stretches: Iterator[Stretch]) -> Iterator[Stretch]:
    last: datetime | None = None
    for stretch in stretches:
        if last is None or stretch.at > last:
            yield stretch
            last = stretch.at


def trace_of(hours: Iterable[Hour]) -> Trace | None:
    """Return the trace that ticks recorded in hours. None: no tick had work."""
    points = ((one.at, one.point) for one in list_points(hours) if one.point is not None and one.point.seconds)
    stretches = [_stretch_of(at, point) for at, point in points]
    return Trace(TraceHeader(), list(_forward(iter(stretches)))) if stretches else None


def _stretch_of(at: datetime, point: Point) -> Stretch:
    known = {name: getattr(point, name) for name in Stretch.__struct_fields__ if name != "at"}
    return Stretch(at=at - timedelta(seconds=point.seconds), **known)


@dataclass(frozen=True, slots=True)
class Depths:
    """The depth of all work queues together, and how long the oldest message has waited. None: age not requested."""

    depth: int
    oldest_age: float | None = None


class QueueDepths:
    """The work queues of one installation."""

    def __init__(self, queues: Sequence[QueueClient], clock: Clock) -> None:
        self._queues, self._clock = queues, clock

    def sample(self, *, with_age: bool) -> Depths:
        """Read the depth, which includes messages in work: storage has no other count."""
        with expecting_an_answer("read the depth of the work queues"):
            counts = [queue.get_queue_properties().approximate_message_count or 0 for queue in self._queues]
            if not with_age:
                return Depths(sum(counts))
            ages = [self._age(queue) for queue, count in zip(self._queues, counts, strict=True) if count]
        return Depths(sum(counts), max(ages, default=0.0))

    def _age(self, queue: QueueClient) -> float:
        # Only visible messages can be peeked. A message in work does not wait.
        oldest = next(iter(queue.peek_messages(1)), None)
        if oldest is None or oldest.inserted_on is None:
            return 0.0
        return max(0.0, (self._clock.now() - oldest.inserted_on).total_seconds())


@dataclass(frozen=True, slots=True)
class QueueReading:
    """One sample of queues and processes. The difference to the next one shows what happened in between."""

    at: datetime
    depth: int
    workers: Mapping[str, Worker]


@dataclass(frozen=True, slots=True)
class Seen:
    """The observation, and the messages that came and went since the previous sample, 0 without one."""

    observation: Observation
    seconds: float = 0.0
    arrived: int = 0
    drained: int = 0
    transactions: int = 0
    failed: int = 0
    processes: int = 0


def add_waiting(depths: Depths, fleet: Fleet, now: datetime, lane: int = 0) -> Depths:
    """Add what waits for its turn, and on the urgent lane: else the window itself would keep the depth small."""
    waiting = fleet.waiting(now)
    oldest = fleet.feed.oldest if fleet.feed and waiting else None
    age = depths.oldest_age
    if oldest is not None and age is not None:
        age = max(age, (now - oldest).total_seconds())
    return Depths(depths.depth + lane + waiting, age)


def take_reading(depths: Depths, workers: Sequence[Worker], now: datetime) -> QueueReading:
    """Build the sample for the next observation."""
    return QueueReading(now, depths.depth, {worker.name: worker for worker in workers})


def observe(depths: Depths, fleet: Fleet, before: QueueReading | None, now: datetime) -> Seen:
    """Build the observation of this moment."""
    seconds = (now - before.at).total_seconds() if before else 0.0
    fresh = fleet.fresh(now)
    # All workers count here: one that rests by now may have done messages since the previous sample.
    worked = _since(before, fleet.workers) if before else _Worked()
    done, busy = worked.done, worked.busy
    # Reports that are still missing can make the sum negative, as if messages had gone that never came.
    arrived = max(0, depths.depth - before.depth + done) if before else 0
    observation = Observation(
        depth=depths.depth,
        hour=now.hour,
        oldest_age=depths.oldest_age,
        arrival_rate=arrived / seconds if seconds > 0 else None,
        drain_rate=done / seconds if seconds > 0 else None,
        cpu=max((worker.cpu for worker in fresh if worker.cpu is not None), default=None),
        latency=busy / done if done else fleet.latency(now),
        payload_bytes=_payload_bytes(worked, fleet, depths.depth),
        in_flight=sum(worker.in_flight for worker in fresh) if fresh else None,
    )
    return Seen(observation, seconds, arrived, done, worked.transactions, worked.failed, len(fresh))


class _Worked(NamedTuple):
    """The work of all processes in a time."""

    done: int = 0
    busy: float = 0.0
    chunks: int = 0
    stored: int = 0
    transactions: int = 0
    failed: int = 0


def _since(before: QueueReading, workers: Sequence[Worker]) -> _Worked:
    found = list[list[Any]]()
    for worker in workers:
        known = before.workers.get(worker.name)
        # A worker that started before that sample and is not in it had been forgotten. Its counts are history.
        if known is not None or worker.started_at >= before.at:
            then = _count(known) if known else _Worked()
            found.append([new - old for new, old in zip(_count(worker), then, strict=True)])
    return _Worked(*map(sum, zip(*found, strict=True))) if found else _Worked()


def _count(worker: Worker) -> _Worked:
    return _Worked(worker.done, worker.busy, worker.chunks, worker.stored, worker.transactions, worker.failed)


def _payload_bytes(worked: _Worked, fleet: Fleet, depth: int) -> float | None:
    """Return the mean size since the previous sample. Without one the last decision's stays while there is work."""
    if worked.chunks > 0:
        return worked.stored / worked.chunks
    last = fleet.decision.observation if fleet.decision else None
    return last.payload_bytes if last and depth else None


#: Processes that ended long ago are forgotten.
GONE_AFTER: Final = timedelta(hours=1)
#: Minutes between two reads of the oldest message's age if no rule needs it, and the seconds from which it is logged.
AGE_EVERY: Final = 15
OLD: Final = 900


class SampleDepths(Protocol):
    """Samples the work queues."""

    def __call__(self, *, with_age: bool) -> Depths:
        """Return the depth and, if requested, the age of the oldest message."""
        ...


def no_budget(_now: datetime, _tasks: int) -> int | None:
    """Give no limit: no budget is set."""
    return None


@dataclass(slots=True, kw_only=True)
class Tuning:
    """Makes the decisions. There is one per process, and it remembers its last sample."""

    fleet: FleetTable
    rules: RulesBlob
    depths: SampleDepths
    pushback: Pushback
    record: Callable[[Stretch], None]
    needs: TickNeeds
    clock: Clock
    #: The tasks that the budget of the day allows now, after so many ran. None: no budget is set.
    budget: Callable[[datetime, int], int | None] = no_budget
    #: Reads how many messages the urgent lane holds. Called while its row is there, and once an hour.
    lane: Callable[[], int]
    #: Sends the permits that are missing for this depth, and returns how many.
    top_up: Callable[[int, int], int]
    _before: QueueReading | None = field(default=None, init=False)

    def run(self) -> Decision:
        """Sample and decide. Called while a job is open."""
        now, before = self.clock.now(), self._before
        fleet = self.fleet.read()
        rules, found = self._watch(fleet)
        needs_age = any(part.metric is RuleInput.OLDEST_AGE for rule in rules.rules for part in rule.conditions)
        # By the clock and not by a count, as the tick does with poison queues.
        depths = self.depths(with_age=needs_age or now.minute % AGE_EVERY == 0)
        depths = add_waiting(depths, fleet, now, self._look_at_lane(fleet, now))
        if depths.oldest_age is not None and depths.oldest_age >= OLD:
            tell(events.WORK_WAITING, oldest_seconds=round(depths.oldest_age), depth=depths.depth)
        seen = observe(depths, fleet, before, now)
        self._before = take_reading(depths, fleet.workers, now)
        governors = self._governors(fleet, seen, now)
        decision = decide_tasks(
            rules,
            seen.observation,
            governors_of_work(governors),
            self.budget(now, _count_running(fleet.decision)),
            fleet.decision,
            now,
        )
        self._write(fleet, decision, governors, found)
        if before is not None and (seen.arrived or seen.drained or seen.observation.depth):
            self.record(_stretch(before.at, seen, decision))
        if seen.observation.depth:
            self.top_up(seen.observation.depth, decision.tasks)
        return decision

    def _look_at_lane(self, fleet: Fleet, now: datetime) -> int:
        """Return how many messages the urgent lane holds, and correct its row."""
        if fleet.lane is None and now.minute:
            return 0
        depth = self.lane()
        if fleet.lane is None and depth:
            self.fleet.announce(now + ANNOUNCED_FOR)
        elif fleet.lane is not None and may_forget(fleet.lane, depth, now):
            self.fleet.forget(fleet.lane)
        return depth

    def foresee(self, messages: int, payload_bytes: float | None = None) -> Decision:
        """Decide for a coming put, so that a burst has its decision before it begins. Makes three requests."""
        fleet = self.fleet.read()
        before = fleet.decision.observation if fleet.decision else None
        # The messages of the last sample may still be there. To count too many only starts a task too many.
        return self._decide_now(fleet, messages + (before.depth if before else 0), payload_bytes)

    def catch_up(self) -> Decision:
        """Decide for work that came without a decision, such as messages that were put back. Wake tasks for it."""
        fleet = self.fleet.read()
        depth = add_waiting(self.depths(with_age=False), fleet, self.clock.now()).depth
        decision = self._decide_now(fleet, depth)
        if depth:
            self.top_up(depth, decision.tasks)
        return decision

    def _decide_now(self, fleet: Fleet, depth: int, payload_bytes: float | None = None) -> Decision:
        now, last = self.clock.now(), fleet.decision
        rules, found = self._watch(fleet)
        before = last.observation if last else None
        seen = replace(before or Observation(depth=0), depth=depth, hour=now.hour)
        if payload_bytes is not None:
            # Of the put that is decided for: what was there before was read already, or is read beside it.
            seen = replace(seen, payload_bytes=payload_bytes)
        own = self.pushback.governors()
        governors = {name: known.after(own.get(name, known)) for name, known in fleet.governors.items()}
        # Only the tick reads the cost of the day. It did so within the last minute.
        budget = last.terms.get(BUDGET) if last else None
        decision = decide_tasks(rules, seen, governors_of_work(governors), budget, last, now)
        if self._write(fleet, decision, {}, found):
            return decision
        # Another process decided first. Its decision binds this one too.
        return self.fleet.read().decision or decision

    def _watch(self, fleet: Fleet) -> tuple[Rules, FleetChange]:
        """Return the rules to decide by, and their change."""
        found = self.rules.look(fleet.in_force.etag if fleet.in_force else None)
        if isinstance(found, Unchanged):
            return fleet.rules, FleetChange()
        if found is None:
            return Fleet().rules, FleetChange(rules_gone=fleet.in_force is not None)
        linted = lint(found.text)
        problems = [] if linted.rules else [str(problem) for problem in linted.problems]
        # Where a person has put back the rules in force, or removed them, it is over after its time.
        self.needs.judge(NeedKind.RULES_UNREADABLE, RULES, "; ".join(problems))
        if linted.rules is None:
            # The rules in force stay: a slip of an operator must not change the tasks that run.
            tell(events.RULES_UNREADABLE, problems=problems)
            return fleet.rules, FleetChange()
        return linted.rules, FleetChange(in_force=RulesInForce(linted.rules, found.text, found.etag))

    def _governors(self, fleet: Fleet, seen: Seen, now: datetime) -> dict[str, Governor]:
        self.pushback.learn(fleet.governors)
        own = self.pushback.governors()
        # With work on the queues, all that is allowed is used. Without work, nothing proves that a service is back.
        is_in_use = seen.observation.depth > 0
        return {
            name: fleet.governors.get(name, governor).after(governor).grow(now, is_in_use=is_in_use)
            for name, governor in own.items()
        }

    def _write(self, fleet: Fleet, decision: Decision, governors: dict[str, Governor], found: FleetChange) -> bool:
        """Write what has changed. Return False if another decision was written meanwhile, and stands."""
        change = FleetChange(
            decision=decision if is_news(fleet.decision, decision) else None,
            governors={name: new for name, new in governors.items() if fleet.governors.get(name) != new},
            in_force=found.in_force,
            rules_gone=found.rules_gone,
            gone=[worker for worker in fleet.workers if decision.at - worker.at > GONE_AFTER],
        )
        if change.is_none:
            return True
        # If another tick decided first, its decision stands, and that tick logs it.
        if not self.fleet.commit(fleet, change):
            return False
        if change.decision:
            tell(events.CONCURRENCY_DECIDED, tasks=decision.tasks, binding=decision.binding, reason=decision.reason)
        return True


def is_news(before: Decision | None, after: Decision) -> bool:
    """Return True if a decision differs in its tasks, its binding term or its rules."""
    return before is None or (before.tasks, before.binding, before.rules_version) != (
        after.tasks,
        after.binding,
        after.rules_version,
    )


def _count_running(decision: Decision | None) -> int:
    """Return how many tasks a decision kept busy, as far as known: no task runs without a message."""
    seen = decision.observation if decision else None
    return 0 if decision is None else decision.tasks if seen is None else min(decision.tasks, seen.depth)


def _stretch(since: datetime, seen: Seen, decision: Decision) -> Stretch:
    observation = seen.observation
    return Stretch(
        at=since,
        seconds=seen.seconds,
        arrived=seen.arrived,
        drained=seen.drained,
        depth=observation.depth,
        tasks=decision.tasks,
        oldest_age=observation.oldest_age,
        latency=observation.latency,
        cpu=observation.cpu,
        payload_bytes=observation.payload_bytes,
        in_flight=observation.in_flight,
        binding=decision.binding,
        processes=seen.processes,
        transactions=max(0, seen.transactions),
        failed=max(0, seen.failed),
    )
