"""Plays the Functions host in one process, by its rules: deliver, count, delete after success, poison after too many."""

import json
from contextlib import suppress
from dataclasses import replace

from azure.core.exceptions import AzureError, ResourceExistsError, ResourceNotFoundError
from azure.servicebus.exceptions import ServiceBusError

from shared.dequeue.work_queue import AGAIN_AFTER
from shared.messages import Delivery
from shared.pipeline.settle import Received
from shared.signals import Hint

#: Seconds for which a delivered message is hidden; on a real storage a run waits them out.
HIDDEN = 1
#: Messages that are fetched at a time, as host.json says.
BATCH = 16
#: Rounds after which a host that is still busy is stuck.
MOST_ROUNDS = 400
STAGES = {"submissions": "accept", "work-00": "process"}


class StuckError(AssertionError):
    """Raised when there is no end to the work."""


class Host:
    """Delivers what waits to one process of the app."""

    #: The storage queues of its triggers.
    queues = tuple(STAGES)
    most_rounds = MOST_ROUNDS

    def __init__(self, app, *, most_deliveries=100, hold_back=()):
        self._app, self._plan, self._world = app, app.plan, app.world
        self._most, self._hold_back = most_deliveries, set(hold_back)
        self._takeovers = app.app.takeovers
        self._takeovers.most_deliveries = most_deliveries
        self._queues = {
            name: app.connections.queues.get_queue_client(name) for name in self.queues if name not in self._hold_back
        }

    def run(self):
        """Deliver until nothing waits that this host does not hold back."""
        for _ in range(self.most_rounds):
            if not self._round() and self._is_idle():
                return
        raise StuckError(f"after {self.most_rounds} rounds there is still work: {self._world.depths()}")

    def _round(self):
        worked = [self._deliver(name, queue) for name, queue in self._queues.items()]
        worked += [self._settle(), self._signal(), self._feed()]
        return any(worked)

    def _is_idle(self):
        if not any(self._world.depths(self._queues).values()):
            return True
        # Something is hidden: it was delivered to a process that ended, or whose reply was lost.
        self._world.storage.wait(0.5)
        return False

    def _deliver(self, name, queue):
        self._plan.stage = "host"
        try:
            found = list(queue.receive_messages(max_messages=BATCH, visibility_timeout=HIDDEN))
        except AzureError:
            return True
        for message in found:
            if message.dequeue_count > 1:
                self._world.journal.note("delivered again", name)
            if message.dequeue_count > self._most:
                self._poison(name, queue, message)
            else:
                self._handle(name, queue, message)
        return bool(found)

    def _handle(self, name, queue, message):
        body = message.content.encode()
        self._plan.stage, handle = self._entry(name, body)
        try:
            delivery = Delivery(
                queue=name,
                message_id=message.id,
                body=body,
                count=message.dequeue_count,
                receipt=message.pop_receipt,
            )
            self._takeovers.handle(delivery, handle)
        except Exception as error:  # noqa: BLE001 - the host knows no kinds of failure
            self._world.journal.note("raised", self._plan.stage, type(error).__name__)
            self._note_failure(name, queue, message, getattr(error, "seconds", AGAIN_AFTER))
        else:
            self._plan.stage = "host"
            with suppress(AzureError):
                self._delete(queue, message)

    def _entry(self, name, body):
        """Return the stage at which a message of a storage queue enters the app, and the function."""
        if name == "submissions":
            return "accept", self._app.app.stages.arrivals.handle
        # Of the processor: following the fleet's decision is no part of these runs.
        is_end = any(b'"kind":"%b"' % kind in body for kind in (b"finish", b"segment", b"shard"))
        return "finish" if is_end else STAGES[name], self._app.app.stages.processor.handle

    def _note_failure(self, name, queue, message, seconds=AGAIN_AFTER):
        self._plan.stage = "host"
        if message.dequeue_count >= self._most:
            self._poison(name, queue, message)
            return
        self._world.clock.advance(seconds=seconds)
        with suppress(AzureError):
            queue.update_message(message, visibility_timeout=0)

    def _poison(self, name, queue, message):
        self._world.journal.note("poisoned", name)
        # The copy first, as the host does, and with the library's own time to live, as the host does too.
        with suppress(AzureError):
            poison = self._app.connections.queues.get_queue_client(f"{name}-poison")
            poison.send_message(message.content)
            self._delete(queue, message)

    def _delete(self, queue, message):
        # A repetition after a lost reply finds nothing to delete, nor does a host whose message was taken over.
        with suppress(ResourceNotFoundError, ResourceExistsError):
            queue.delete_message(message)

    def _settle(self):
        # One alone at first, so that duplicates of it come in a batch of their own.
        most = 8 if self._world.journal.entries("completed") else 1
        letters = [] if "results" in self._hold_back else self._world.bus.waiting("results")[:most]
        if not letters:
            return False
        self._world.bus.deliver(letters)
        self._plan.stage = "settle"
        received = [Received(one.body.encode(), one.id, one.deliveries, one.looks) for one in letters]
        try:
            settled = self._app.app.settle(received)
        except Exception as error:  # noqa: BLE001 - same reason
            self._world.journal.note("raised", "settle", type(error).__name__)
            return True
        self._world.journal.note("settled", settled.credited, settled.duplicates, settled.parked)
        self._complete(letters)
        return True

    def _signal(self):
        letters = self._world.bus.waiting("signals")
        if "signals" in self._hold_back or not letters:
            return False
        self._world.bus.deliver(letters)
        self._plan.stage = "release"
        for letter in letters:
            if letter.kind == "release":
                self._app.app.release(Hint.of(letter.subject, json.loads(letter.body)["sluice"]))
        self._complete(letters)
        return True

    def _feed(self):
        letters = self._world.bus.waiting("permits")
        if "permits" in self._hold_back or not letters:
            return False
        self._world.bus.deliver(letters)
        feeder = replace(self._app.app.stages.feeder, pause=self._rest)
        for letter in letters:
            self._plan.stage = "feed"
            feeder.follow(letter.deliveries)
        self._complete(letters)
        return True

    def _rest(self, seconds):
        """Work while a feeder rests."""
        self._world.clock.advance(seconds=seconds)
        for name, queue in self._queues.items():
            self._deliver(name, queue)
        self._settle()
        self._plan.stage = "feed"

    def _complete(self, letters):
        self._plan.stage = "host"
        with suppress(ServiceBusError):
            self._plan.around("COMPLETE", lambda: self._world.bus.complete(letters))


def bury_dead_letter(app, body):
    """Park one message from the dead letters of the bus, as `park_dead` does."""
    app.app.park(body, "dead", "MaxDeliveryCountExceeded")
