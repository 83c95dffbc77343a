"""Who is around the process of a person's own, `own/returns` of docs/processes.md: two carriers, and the shop that hears.

They are programs of others: they read the bus as JSON, and know nothing of the project.
"""

import json
import threading
from collections import Counter
from contextlib import suppress

from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

#: The events with which a return ends.
ENDS = {"fetched", "given_up"}


class Carriers:
    """Both carriers and the shop, each a thread; a context manager that ends them."""

    def __init__(self, bus, dice):
        self._bus, self._dice, self._over = bus, dice, threading.Event()
        #: Returns whose first carrier never answers, and those that must come to an end.
        self.lost, self.sent = set(), set()
        #: How often each carrier was asked for each return, and the kind of each public event by its version.
        self.asked, self.heard = Counter(), {}
        self._late = []
        self._threads = [threading.Thread(target=self._go_on, args=(one,)) for one in (self._fetch, self._hear)]

    def __enter__(self):
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        for one in self._threads:
            one.join()

    def _go_on(self, part):
        while not self._over.is_set():
            # The bus may be away, and it may be another bus afterwards.
            with suppress(ServiceBusError), ServiceBusClient.from_connection_string(self._bus) as bus:
                part(bus)
            self._over.wait(1)

    def _fetch(self, bus):
        """Answer each command: once or twice, perhaps late, and some at the first carrier never."""
        commands, answers = bus.get_queue_receiver("returns-commands"), bus.get_queue_sender("returns-answers")
        with commands, answers:
            while not self._over.is_set():
                for message in commands.receive_messages(50, max_wait_time=1):
                    for command in json.loads(b"".join(message.body))["sluice"]["commands"]:
                        name, generation = command["body"]["return"], command["generation"]
                        self.asked[name, generation] += 1
                        if generation == 1 and name in self.lost:
                            continue
                        answer = json.dumps({"return": name, "kind": "fetched", "generation": generation})
                        self._late += [answer] * self._dice.choice((0, 1))
                        answers.send_messages(ServiceBusMessage(answer))
                    commands.complete_message(message)
                if self._late:
                    answers.send_messages(ServiceBusMessage(self._late.pop()))

    def _hear(self, bus):
        """Keep each event of each return by its version: the same may come twice."""
        with bus.get_subscription_receiver("returns-events", "shop") as receiver:
            while not self._over.is_set():
                for message in receiver.receive_messages(50, max_wait_time=1):
                    for stream in json.loads(b"".join(message.body))["sluice"]["streams"]:
                        for event in stream["events"]:
                            self.heard.setdefault((stream["home"], event["version"]), set()).add(event["kind"])
                    receiver.complete_message(message)

    def ended(self):
        """Return the events with which each return ended, as the shop heard them."""
        found = {}
        for (home, _), kinds in sorted(self.heard.items()):
            if kinds & ENDS:
                found.setdefault(home, []).extend(sorted(kinds & ENDS))
        return found
