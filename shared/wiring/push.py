"""What wakes instances for the work queues, and what an instance that was woken does."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

from shared.clock import Clock, SystemClock
from shared.connections import Connections
from shared.dequeue.drain import Drain
from shared.dequeue.notifier import Notifier
from shared.dequeue.permits import Fleet
from shared.dequeue.slots import CONTAINER, BlobSlots
from shared.dequeue.top_up import TopUp
from shared.dequeue.work_queue import WorkQueue
from shared.settings import Settings
from shared.signals import BusPermits
from shared.topology import work_queue_names
from shared.wiring.works import Works

#: Seconds for which a received message is hidden, and a failed one before it is tried again: as host.json has it.
VISIBILITY: Final = 30

#: Entered around a put of so many messages on the work queues, the first of so many in the same dispatch.
Waking: TypeAlias = Callable[[int, int], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """Everything about permits."""

    drain: Drain
    notifier: Notifier
    top_up: TopUp


def push(connections: Connections, settings: Settings, work: Works, *, clock: Clock | None = None) -> Push:
    """Return what these connections reach; nothing is asked of storage or of the bus yet."""
    clock, send = clock or SystemClock(), BusPermits(connections)
    slots = BlobSlots(connections.blobs.get_container_client(CONTAINER), clock)
    fleet = Fleet(rule=work.following.rule, cap=work.following.cap, tasks=settings.permit_tasks)
    sources = work_sources(connections, settings.work_queues, clock)
    return Push(
        drain=Drain(
            sources=sources,
            handle=work.handle,
            fleet=fleet,
            slots=slots,
            send=send,
            clock=clock,
            look=work.following.look,
            visibility=VISIBILITY,
        ),
        notifier=Notifier(
            policy=settings.notify,
            when=settings.notify_when,
            fleet=fleet,
            slots=slots,
            send=send,
            depth=lambda: sum(source.depth() for source in sources),
        ),
        top_up=TopUp(slots=slots, fleet=fleet, send=send),
    )


def work_sources(connections: Connections, work_queues: int, clock: Clock) -> list[WorkQueue]:
    """Return the work queues as a listener takes them."""
    clients = (connections.queues.get_queue_client(name) for name in work_queue_names(work_queues))
    return [WorkQueue(client, clock, VISIBILITY) for client in clients]


@contextmanager
def waking_nobody(_messages: int, _coming: int) -> Iterator[None]:
    """Put and wake nobody: the host's triggers find it."""
    yield
