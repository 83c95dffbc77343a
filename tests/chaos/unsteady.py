"""Billing as the chaos runs load it: it notes every run, and makes what the app sends come twice and out of order.

It is loaded into the app's own processes by SLUICE_WORKLOADS, so nothing of the app knows of it.
"""

import os
import random
import time
from datetime import UTC, datetime, timedelta

from azure.servicebus import ServiceBusMessage, ServiceBusSender
from azure.storage.queue import QueueClient

from shared.pipeline.results import QUEUE as RESULTS
from shared.workloads.billing import Billing

#: Settings of the chaos runs: a file of notes, the share of messages that is sent twice, seconds that results are late.
NOTES, TWICE, LATE = "CHAOS_NOTES", "CHAOS_TWICE", "CHAOS_LATE"


class Notes:
    """Lines that several processes append to one file; a killed one leaves at worst nothing."""

    def __init__(self, path):
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, *words):
        """Append one line in one write."""
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


class Unsteady(Billing):
    """The workload `billing`, noted."""

    notes: Notes

    @classmethod
    def configured(cls, settings):
        """Return it, after making the process's messages unsteady where the settings ask for it."""
        made = cls()
        made.notes = Notes(settings[NOTES])
        if float(settings[TWICE]):
            _unsettle(made.notes, float(settings[TWICE]), float(settings[LATE]))
        return made

    def map_many(self, usages, numbers):
        """Note that the chunk which begins with this number is computed, and compute it."""
        self.notes.write("run", numbers[0], time.time())
        return super().map_many(usages, numbers)


def _unsettle(notes, share, late):
    dice = random.SystemRandom()
    send_message, send_messages = QueueClient.send_message, ServiceBusSender.send_messages

    def copies():
        return 2 if dice.random() < share else 1

    def send_to_queue(self, *arguments, **options):
        count = copies()
        notes.write("sent", self.queue_name, count)
        return [send_message(self, *arguments, **options) for _ in range(count)][-1]

    def send_to_bus(self, messages, **options):
        each = messages if isinstance(messages, list) else [messages]
        if not all(isinstance(one, ServiceBusMessage) for one in each):
            raise TypeError("the app sends batches now: let them come twice as well")
        for one in each:
            count = copies()
            notes.write("sent", self.entity_name, count)
            for _ in range(count):
                if late and self.entity_name == RESULTS:
                    # Each copy at a time of its own: results overtake each other.
                    one.scheduled_enqueue_time_utc = datetime.now(UTC) + timedelta(seconds=dice.uniform(0, late))
                send_messages(self, one, **options)

    QueueClient.send_message = send_to_queue
    ServiceBusSender.send_messages = send_to_bus
