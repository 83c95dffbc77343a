"""One stage of a large job in a process of its own, so that its time, its requests and its memory are its own.

python -m tests.benchmarks.large_job_stage ROLE        (ROLE is JSON; the result is a line of JSON)

Real: every stage of the app, its stores and Azurite. Simulated: the publisher makes one frame and repeats its bytes; the
bus is a list, and the results that would travel over it lie in a file; the host is a loop that receives and deletes. A job
of more transactions than one payload may have goes in stretches, each of which repeats the same bytes.
"""

import io
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import Any

from shared.app import App, Stores
from shared.azure.meter import BUS
from shared.ledger.records import JobState
from shared.messages import Delivery, Result, encode
from shared.payload import (
    Frame,
    Framed,
    FrameIndex,
    Framing,
    Limits,
    PayloadStore,
    expand_frame,
    spool_for,
    write_frames,
    write_submission,
)
from shared.payload.submission import DeclaredFields, PayloadFields, SubmissionFields
from shared.pipeline.settle import Received
from shared.pipeline.start import MOST_AT_ONCE
from shared.publish import Publisher
from shared.settings import Settings
from shared.topology import payload_container, submission_queue
from shared.workloads.registry import Workloads
from tests.benchmarks.held_worker import Shifted
from tests.benchmarks.pipeline_measure import transactions
from tests.faults.bus import Bus, BusConnections
from tests.faults.journal import Journal
from tests.faults.plan import Plan
from tests.memory import peak

#: As host.json: messages of one queue in work, and results in one batch.
AT_ONCE, BATCH = 24, 1_000
#: Longer than any stage: no message comes back while it is in work.
HIDDEN = 3_600
WORK = "work-00"


@dataclass(frozen=True)
class Role:
    """What one process does, and on which jobs."""

    stage: str
    settings: dict[str, str]
    jobs: list[str]
    items: int
    folder: str


class Kept:
    """Results that would travel over the bus, a line each in a file."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, Lock()

    def __call__(self, result: Result) -> None:
        """Keep one."""
        with self._lock, self._path.open("ab") as file:
            file.write(encode(result) + b"\n")

    def send_later(self, messages: Sequence[Received]) -> None:
        """Refuse: no version here is newer than its reader."""
        raise AssertionError(f"{len(messages)} results are of a newer version")

    def read(self) -> list[bytes]:
        """Return the messages about all of them."""
        return self._path.read_bytes().splitlines()

    def close(self) -> None:
        """Do nothing: each line was written at once."""


class Stage:
    """The app of one process, and the means to drive it."""

    def __init__(self, role: Role) -> None:
        self.role, self.clock, self.bus = role, Shifted(), Bus(Journal())
        storage = role.settings["SluiceStorage"]
        self.metered, self.others = (BusConnections(storage, self.bus, Plan(), transport=None) for _ in range(2))
        settings = Settings.parse(role.settings)
        stores = Stores(self.metered, clock=self.clock)
        self.results = Kept(Path(role.folder) / "results")
        stores.send_result = self.results  # type: ignore[assignment]  # kept instead of sent
        self.app = App(self.metered, settings, Workloads.load(settings.workloads, role.settings), stores=stores)
        starter = self.app.stages.starter
        # Puts all chunks at once, and needs no feeder.
        direct = SimpleNamespace(take=lambda chunks, _room: chunks, following=starter.direct.following)
        object.__setattr__(starter, "direct", direct)
        self.ticks: list[float] = []

    def measure(self, work: Callable[[], object]) -> dict[str, Any]:
        """Do the work, and return what it took."""
        asked = self.metered.meter.tally.counts()
        used, began = time.process_time(), time.monotonic()
        work()
        wall, cpu = time.monotonic() - began, time.process_time() - used
        made = {kind: number - asked.get(kind, 0) for kind, number in self.metered.meter.tally.counts().items()}
        storage = sum(number for (kind, _), number in made.items() if kind.service != BUS)
        ticks = {"ticks": len(self.ticks), "longest": max(self.ticks, default=0.0), "ticking": sum(self.ticks)}
        return {"stage": self.role.stage, "wall": wall, "cpu": cpu, "requests": storage, "peak": peak(), **ticks}

    def deliver(self, queue: str, handle: Callable[[Delivery], object], threads: int) -> None:
        """Deliver every message of a queue."""
        client = self.others.queues.get_queue_client(queue)

        def take(message: Any) -> None:
            handle(Delivery(queue=queue, message_id=message.id, body=message.content.encode(), count=1))
            client.delete_message(message)

        with ThreadPoolExecutor(threads) as pool:
            while found := list(client.receive_messages(max_messages=32, visibility_timeout=HIDDEN)):
                list(pool.map(take, found))

    def tick(self) -> None:
        """Tick once, and note how long it took."""
        began = time.monotonic()
        self.app.tick()
        self.ticks.append(time.monotonic() - began)

    def states(self) -> list[JobState | None]:
        """Return the state of every job."""
        rows = map(Stores(self.others).ledger.read, self.role.jobs)
        return [None if row is None else row.state for row in rows]

    def depth(self) -> int:
        """Return how many messages the work queue has."""
        found = self.others.queues.get_queue_client(WORK).get_queue_properties().approximate_message_count
        return int(found or 0)


def publish(stage: Stage) -> None:
    """Drop every job: one frame, repeated."""
    role, limits = stage.role, Limits()
    store = PayloadStore(stage.metered.blobs.get_container_client(payload_container()), limits)
    queue = stage.metered.queues.get_queue_client(submission_queue())
    with io.BytesIO() as spool:
        made = write_frames(
            enumerate(transactions(limits.frame_items), 1),
            spool,
            Framing(sums=("quantity",), checked=limits.frame_items),
        )
        (frame,), text = made.index.frames, spool.getvalue()
    if role.items > limits.items_most:
        for job in role.jobs:
            _grow(stage, job, made, text)
        return
    number = role.items // frame.items
    index = FrameIndex(tuple(Frame(at * frame.length, frame.length, frame.items, frame.sha256) for at in range(number)))
    sums = {name: format(amount * number, "f") for name, amount in made.sums.items()}
    listed = index.encode()
    for job in role.jobs:
        with (Path(role.folder) / "payload").open("w+b") as file:
            whole = sha256()
            for _ in range(number):
                file.write(text)
                whole.update(text)
            file.seek(0)
            name = store.put(job, file, index.stored, whole.hexdigest()).name
        store.put(job, io.BytesIO(listed), len(listed), index.sha256)
        payload = PayloadFields(blob=name, codec=made.codec, index=index.sha256)
        declared = DeclaredFields(index.items, sums)
        fields = SubmissionFields(job=job, workload="billing", declared=declared, payload=payload)
        queue.send_message(write_submission(fields).decode(), time_to_live=-1)


def _grow(stage: Stage, job: str, made: Framed, stored: bytes) -> None:
    """Send a job in stretches as a publisher does, each as large as its text may be."""
    limits, (frame,) = Limits(), made.index.frames
    text = expand_frame(stored, made.codec, limits)
    publisher = Publisher(
        stage.metered.queues.get_queue_client(submission_queue()),
        stage.metered.blobs.get_container_client(payload_container()),
    )
    sender, left = publisher.open(job=job, workload="billing").sender, stage.role.items // frame.items
    while left:
        number = min(left, limits.stretch_bytes // len(text))
        with spool_for(limits) as spool:
            whole, lines = sha256(), sha256()
            for _ in range(number):
                spool.write(stored)
                whole.update(stored)
                lines.update(text)
            frames = tuple(Frame(at * frame.length, frame.length, frame.items, frame.sha256) for at in range(number))
            sender.send(
                replace(made, index=FrameIndex(frames), sha256=whole.hexdigest(), sums={}), spool, lines.hexdigest()
            )
        left -= number
    sender.end({}, None)


def accept(stage: Stage) -> None:
    """Accept and dispatch every job."""
    stage.deliver(submission_queue(), stage.app.accept, len(stage.role.jobs))
    while any(row.growing for row in _rows(stage)):
        # Their stretches take longer than one invocation may.
        stage.clock.ahead += stage.app.settings.chunk_overdue * 2
        stage.tick()


def wait(stage: Stage) -> None:
    """Tick while every chunk waits for its turn, and the jobs were silent for too long."""
    stage.clock.ahead = stage.app.settings.chunk_overdue * 2
    stage.tick()


def lose(stage: Stage) -> None:
    """Lose every message, and tick until each job's first chunks were put again. The others wait for their turns."""
    stage.others.queues.get_queue_client(WORK).clear_messages()
    stage.clock.ahead = stage.app.settings.chunk_overdue * 2
    wanted = sum(min(MOST_AT_ONCE, row.chunks) for row in _rows(stage))
    while stage.depth() < wanted:
        stage.tick()


def process(stage: Stage) -> None:
    """Work on every chunk."""
    stage.deliver(WORK, stage.app.process, AT_ONCE)


def settle(stage: Stage) -> None:
    """Settle every result, batch after batch."""
    found = stage.results.read()
    for begin in range(0, len(found), BATCH):
        stage.app.settle([Received(body, f"r{n}") for n, body in enumerate(found[begin : begin + BATCH], begin)])


def finish(stage: Stage) -> None:
    """Finish every job, one after the other."""
    stage.deliver(WORK, stage.app.process, 1)
    if set(stage.states()) != {JobState.COMPLETE}:
        raise AssertionError(f"not each is complete: {stage.states()}")


def bury(stage: Stage) -> None:
    """Tick once after the end, then tick when retention is over, until nothing is left."""
    stage.clock.ahead = stage.app.settings.chunk_overdue * 2
    stage.tick()
    stage.clock.ahead = stage.app.settings.retention * 2
    container = stage.others.blobs.get_container_client("results")
    while set(stage.states()) != {JobState.BURIED} or next(container.list_blob_names(), None):
        stage.tick()


def _rows(stage: Stage) -> Iterator[Any]:
    return (row for job in stage.role.jobs if (row := stage.app.stores.ledger.read(job)) is not None)


STAGES = {one.__name__: one for one in (publish, accept, wait, process, settle, finish, bury, lose)}
#: The last one is of jobs of its own, for chunks that are put again cost a worker one read more.
LAST = lose.__name__


def main() -> None:
    """Do one stage."""
    role = Role(**json.loads(sys.argv[1]))
    stage = Stage(role)
    sys.stdout.write(json.dumps(stage.measure(lambda: STAGES[role.stage](stage))))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
