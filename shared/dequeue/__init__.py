"""Taking work off the queues: a listener that follows their depth, and permits that start it.

Reading order:

- `work_queue`: receive messages, keep them hidden, and read the depth; take over what triggers delivered.
- `task`: the loop of one dequeue task, and its hooks.
- `listener`: as many tasks as the depth calls for.
- `permits`: the slots of the fleet, and permits for a put.
- `drain`: the tasks that a permit starts, in the app or in a process of its own.
- `receiving`: how many messages one receive takes, and from which lane.
- `hint_follower`: takes what publishers dropped when a hint comes.
"""

from shared.dequeue.drain import (
    DEPTH_EVERY as DEPTH_EVERY,
    PATIENCE as PATIENCE,
    Drain as Drain,
    PermitWorker as PermitWorker,
    stays_for as stays_for,
)
from shared.dequeue.hint_follower import HintFollower as HintFollower
from shared.dequeue.listener import QueueListener as QueueListener, sweep as sweep
from shared.dequeue.permits import (
    CONTAINER as CONTAINER,
    BlobSlots as BlobSlots,
    Notifier as Notifier,
    Notify as Notify,
    Put as Put,
    SlotLease as SlotLease,
    SlotPlan as SlotPlan,
    Spare as Spare,
    TopUp as TopUp,
    Wakes as Wakes,
    When as When,
    choose_slots as choose_slots,
)
from shared.dequeue.receiving import (
    AHEAD as AHEAD,
    OwnPuts as OwnPuts,
    UrgentLane as UrgentLane,
    receive_size as receive_size,
)
from shared.dequeue.task import BackOff as BackOff, Listening as Listening, Telling as Telling, pull as pull
from shared.dequeue.work_queue import (
    MOST_DELIVERIES as MOST_DELIVERIES,
    DepthSample as DepthSample,
    Renewals as Renewals,
    WorkQueue as WorkQueue,
    redeliver_after as redeliver_after,
)
