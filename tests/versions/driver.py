"""Drives one version of Sluice, whose modules `find` returns by their names below `shared`.

Each release freezes this file beside its wheel, because it calls that release's constructors. So it imports nothing of
Sluice by itself, and takes and returns plain values.
"""

from contextlib import suppress
from dataclasses import replace
from decimal import Decimal

import msgspec


class Sale(msgspec.Struct, frozen=True):
    """A transaction."""

    shop: str
    amount: Decimal


class Sold(msgspec.Struct, frozen=True):
    """A sale with its id."""

    shop: str
    amount: Decimal
    id: int


def workload_of(find):
    """Return a workload that keeps every sale with its id, and splits by shop."""
    parts = find("workloads")

    class Sales:
        name, transaction, partial, sums = "sales", Sale, list[Sold], ("amount",)

        def map(self, sale, number):
            return Sold(sale.shop, sale.amount, number) if sale.shop else parts.Rejected("no_shop", "it is empty")

        def combine(self, mapped):
            return list(mapped)

        def merge(self, left, right):
            return left + right

        def split(self, partial, count):
            slices = [[] for _ in range(count)]
            for sale in partial:
                slices[parts.shard_of(sale.shop, count)].append(sale)
            return slices

        def finish(self, partial):
            shops = {}
            for sale in partial:
                shops[sale.shop] = shops.get(sale.shop, Decimal()) + sale.amount
                yield parts.Line({"id": sale.id, "shop": sale.shop, "amount": str(sale.amount)})
            yield from (parts.Total(shop, {"amount": str(amount)}) for shop, amount in sorted(shops.items()))

    return Sales()


class Driver:
    """One process of this version."""

    def __init__(self, find, *, storage, transport, bus_client, clock):
        self._find = find

        class OverStandIn(find("azure").Connections):
            def bus_client(self):
                return bus_client()

        self._connections = OverStandIn(storage, "in this process", transport=transport)
        self._stores = find("app").Stores(self._connections, clock=clock, parallel=1)
        settings = find("settings").Settings.parse(
            {
                find("azure.connection_settings").STORAGE_CONNECTION: "this run's",
                find("azure.connection_settings").BUS_CONNECTION: "this run's",
                "SLUICE_TICK_SCHEDULE": "by hand",
                "SLUICE_CHUNK_ITEMS": "2",
            }
        )
        workloads = find("workloads.registry").Workloads([workload_of(find)])
        self._app = find("app").App(self._connections, settings, workloads, stores=self._stores)
        # Its processes end at a request, and never by the workload, which another process could not load.
        run, processor = find("pipeline.outputs").run_in_parts, self._app.stages.processor

        def run_here(*chunk, turns, **more):
            return run(*chunk, **more)

        processor._tools = replace(processor._tools, run_alone=run_here)
        # Jobs of five chunks have several segments and several shards, as large ones do.
        finisher = self._app.stages.finisher
        made = find("pipeline").Finisher(replace(finisher._tools, shard_bytes=1))
        finisher._segments = replace(made._segments, segment_chunks=2, shards=4, apart=1)
        finisher._shards = made._shards

    def submit(self, job, sales, *, gate, is_inline):
        """Publish a job as a publisher with this version's library does."""
        sizes = {"frame_items": 2} if is_inline else {"frame_items": 2, "message_bytes": 500}
        publisher = self._find("publish").Publisher(
            self._connections.queues.get_queue_client("submissions"),
            self._connections.blobs.get_container_client("payloads"),
            limits=self._find("payload").Limits(**sizes),
        )
        publisher.submit(job=job, transactions=sales, workload="sales", gate=gate, sums=("amount",))

    def open_gate(self, gate):
        """Open a gate as an operator does."""
        self._stores.gate_operator.open(gate, by="ann")

    def deliver(self, queue, name, body, count):
        """Handle a message of a storage queue."""
        delivery = self._find("messages").Delivery(queue=queue, message_id=name, body=body, count=count)
        (self._app.accept if queue == "submissions" else self._app.stages.processor.handle)(delivery)

    def settle(self, letters):
        """Settle result messages: (body, id, deliveries, looks) each."""
        received = self._find("pipeline").Received
        self._app.settle([received(*one) for one in letters])

    def bury(self, body):
        """Park a dead letter of the results."""
        self._app.park(body, "dead", "MaxDeliveryCountExceeded")

    def release(self, subject, properties):
        """Follow a hint about a gate."""
        self._app.release(self._find("signals").Hint.of(subject, properties))

    def tick(self):
        """Run the timer once. What one job meets is no reason for the others."""
        with suppress(self._find("errors").SluiceError):
            self._app.tick()

    def close(self):
        """End the process."""
        self._app.close()
        self._connections.close()
