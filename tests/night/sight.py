"""Somebody beside the installation who sees what lies in storage all the time, and reads all that was logged at the end.

It goes to storage by its own way, so that it is away only while storage itself is.
"""

import json
import re
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime

from azure.core.exceptions import AzureError
from azure.data.tables import TableServiceClient
from azure.servicebus import ServiceBusClient, ServiceBusSubQueue
from azure.servicebus.exceptions import ServiceBusError

#: Seconds between two looks: storage goes through all rows of jobs for each.
EVERY = 5
#: A line of an instance's log: when, the event, its fields.
_LOGGED = re.compile(
    r"^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)[.,]\d{3}(Z?) .*?(sluice(?:\.[a-z_]+)+) (\{.*\})$", re.MULTILINE
)
#: A row of the alerts in docs/appendix/telemetry.md: the event, and which lines of it call for a person.
_ALERT = re.compile(
    r"^\| `(sluice[a-z._]+)` \|[^|]*\| (?:every one|`todouble\(fields\.(\w+)\) >= (\d+)`) \|", re.MULTILINE
)


class Sight:
    """When jobs were paused and needs stood, as the rows said; a context manager that ends its thread."""

    def __init__(self, storage):
        self._storage, self._over = storage, threading.Event()
        #: When each job was seen to be paused first, and when each need (kind, what it is about).
        self.paused, self.needs = {}, {}
        #: Seconds in which nothing was seen, for each stretch: (since, until).
        self.blind = []
        self._thread = threading.Thread(target=self._see, name="sight")

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def _see(self):
        options = {"retry_total": 0, "connection_timeout": 5, "read_timeout": 5}
        seen = time.time()
        with TableServiceClient.from_connection_string(self._storage, **options) as tables:
            jobs, watch = tables.get_table_client("jobs"), tables.get_table_client("decisions")
            while not self._over.wait(EVERY):
                with suppress(AzureError):
                    needs = watch.query_entities("PartitionKey eq 'watch' and RowKey ge '1|' and RowKey lt '2|'")
                    keys = [row["RowKey"].split("|", 2)[1:] for row in needs]
                    paused = jobs.query_entities("RowKey eq 'job' and state eq 'paused'", select=["PartitionKey"])
                    names, now = [row["PartitionKey"] for row in paused], time.time()
                    for kind, about in keys:
                        self.needs.setdefault((kind, about), now)
                    for name in names:
                        self.paused.setdefault(name, now)
                    if now - seen > 2 * EVERY:
                        self.blind.append((seen, now))
                    seen = now


def alerts_of(page, logs):
    """Return each line of the logs that calls for a person by that page: (when, event, fields), in the order of time."""
    calls, found = {event: (field, float(bound or 0)) for event, field, bound in _ALERT.findall(page)}, []
    for day, clock, is_utc, event, fields in (line for log in logs for line in _LOGGED.findall(log)):
        if event in calls:
            field, bound = calls[event]
            read = json.loads(fields)
            if not field or float(read.get(field) or 0) >= bound:
                at = datetime.fromisoformat(f"{day}T{clock}")
                found.append(((at.replace(tzinfo=UTC) if is_utc else at.astimezone()).timestamp(), event, read))
    return sorted(found, key=lambda one: one[0])


def count_dead(bus, namespace):
    """Return how many messages the bus gave up on, by entity."""
    counts = {}
    with ServiceBusClient.from_connection_string(bus) as client:
        names = [(queue.name,) for queue in namespace.queues]
        names += [(topic.name, one.name) for topic in namespace.topics for one in topic.subscriptions]
        for name in names:
            get = client.get_queue_receiver if len(name) == 1 else client.get_subscription_receiver
            with suppress(ServiceBusError), get(*name, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
                counts[f"dead letters of {'/'.join(name)}"] = len(receiver.peek_messages(100))
    return counts
