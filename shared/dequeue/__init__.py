"""Taking work off the queues: a listener that follows their depth, and permits that start it.

Reading order:

- `work_queue`: receive messages and read the depth.
- `pace`: how many messages one receive takes, and when it asks the urgent lane.
- `task`: the loop of one dequeue task.
- `listener`: as many tasks as the depth calls for.
- `permits`: the slots of the fleet.
- `notifier`: permits for a put.
- `drain`: the tasks that a permit starts.
- `worker`: a process of its own that receives permits.
- `turns`: the messages that triggers delivered, under the same slots.
- `hint_follower`: takes what publishers dropped when a hint comes.
"""

from shared.dequeue.drain import DEPTH_EVERY, PATIENCE, Drain
from shared.dequeue.hint_follower import HintFollower
from shared.dequeue.hooks import Listening, Telling, pull
from shared.dequeue.listener import QueueListener, sweep
from shared.dequeue.notifier import Notifier, Notify, Put, TopUp, When, choose_slots
from shared.dequeue.pace import AHEAD, UrgentLane, receive_size
from shared.dequeue.permits import CONTAINER, RENEW_AFTER, BlobSlots, SlotPlan
from shared.dequeue.turns import Turns
from shared.dequeue.work_queue import DepthSample, WorkQueue
from shared.dequeue.worker import PermitWorker

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
