"""Taking work off the queues: a listener that follows their depth, and permits that start it.

Reading order:

- `work_queue`: receive messages, keep them hidden, and read the depth.
- `task`: the loop of one dequeue task, and its hooks.
- `listener`: as many tasks as the depth calls for.
- `permits`: the slots of the fleet, and permits for a put.
- `drain`: the tasks that a permit starts, in the app or in a process of its own.
- `turns`: how many messages one receive takes; the messages that triggers delivered, under the same slots.
- `hint_follower`: takes what publishers dropped when a hint comes.
"""

from shared.dequeue.drain import DEPTH_EVERY, PATIENCE, Drain, PermitWorker
from shared.dequeue.hint_follower import HintFollower
from shared.dequeue.listener import QueueListener, sweep
from shared.dequeue.permits import (
    CONTAINER,
    RENEW_AFTER,
    BlobSlots,
    Notifier,
    Notify,
    Put,
    SlotPlan,
    TopUp,
    When,
    choose_slots,
)
from shared.dequeue.task import Listening, Telling, pull
from shared.dequeue.turns import AHEAD, Turns, UrgentLane, receive_size
from shared.dequeue.work_queue import DepthSample, WorkQueue

__all__ = [
    "AHEAD",
    "CONTAINER",
    "DEPTH_EVERY",
    "PATIENCE",
    "RENEW_AFTER",
    "BlobSlots",
    "DepthSample",
    "Drain",
    "HintFollower",
    "Listening",
    "Notifier",
    "Notify",
    "PermitWorker",
    "Put",
    "QueueListener",
    "SlotPlan",
    "Telling",
    "TopUp",
    "Turns",
    "UrgentLane",
    "When",
    "WorkQueue",
    "choose_slots",
    "pull",
    "receive_size",
    "sweep",
]
