"""After an erasure is proven, a mark of its transactions is in no byte of storage's files, nor on the bus."""

import json

from shared.errors import RefusedError
from shared.messages import Delivery
from shared.parked.entry import ACCEPT, DOOR, Entry
from shared.publish import Publisher
from shared.topology import topology
from tests.faults.marks import has_mark, places_of
from tests.faults.sales import LinedSales
from tests.faults.world import SMALL, sales
from tests.pipeline.test_pause import tick
from tests.pipeline.whole_app import WholeApp
from tools.local.azurite.launcher import Azurite
from tools.local.provision import provision

MARK, OTHER = b"m4rk3d", b"k33p3r"
WHY = {"by": "ann", "why": "request 4711"}


class Quoting(LinedSales):
    """Fails for some transactions, and quotes them."""

    def map(self, sale, number):
        """Quote a shop that is bad."""
        if sale.shop.endswith("-bad"):
            raise RefusedError("bad_sale", f"no such shop: {sale.shop}", "correct it")
        return super().map(sale, number)


def shops(mark):
    """Return sales of which one is rejected, one fails beside another, and two fail together."""
    name = mark.decode()
    return sales(name, "", name, f"{name}-bad", f"{name}-bad", f"{name}-bad")


def submit(app, job, mark):
    """Drop a job in frames, and one as a file of its publisher."""
    payloads = app.others.blobs.get_container_client("payloads")
    queue = app.others.queues.get_queue_client("submissions")
    Publisher(queue, payloads, limits=SMALL).submit(job=job, transactions=shops(mark), workload="sales")
    lines = b"".join(json.dumps(one).encode() + b"\n" for one in shops(mark))
    payloads.upload_blob(f"uploads/{job}.ndjson", lines)
    filed = {"job": f"{job}-filed", "workload": "sales", "payload": {"blob": f"uploads/{job}.ndjson"}}
    queue.send_message(json.dumps({"sluice": filed}))
    # One that claims the job, and is refused.
    items = [{"shop": mark.decode(), "amount": "1"}]
    queue.send_message(json.dumps({"sluice": {"job": job, "workload": "none such", "items": items}}))


def flood(app, job, mark):
    """Have messages that claim a job above the bound at the door, in one file with those of another."""
    for number in range(2):
        body = json.dumps({"sluice": {"job": job, "items": [mark.decode(), number]}}).encode()
        app.stores.overflow.keep(door_entry(app, job, body), body)


def door_entry(app, job, body):
    """Return what an entry at the door would be."""
    parking = app.stores.parking
    claim = parking.stages.find(ACCEPT).identify(Delivery(queue="submissions", message_id="m", body=body, count=1))
    now = app.clock.now()
    return Entry(
        job=DOOR, key=claim.key, stage=ACCEPT, queue="submissions", reason="wrong", found=body.decode(), instead="",
        fingerprint="f100d", attempts=1, first_at=now, last_at=now, message_id="m", sha256="", size=len(body),
        claimed=job,
    )  # fmt: skip


def kept_in(app):
    """Return all that storage lists: rows, blobs with their bytes, and messages."""
    found = {}
    for table in app.others.tables.list_tables():
        rows = app.others.tables.get_table_client(table.name).list_entities()
        found[f"table {table.name}"] = [dict(row) for row in rows]
    for one in app.others.blobs.list_containers():
        container = app.others.blobs.get_container_client(one.name)
        blobs = {
            name: container.download_blob(name, decompress=False).readall() for name in container.list_blob_names()
        }
        found[f"container {one.name}"] = blobs
    for one in app.others.queues.list_queues():
        queue = app.others.queues.get_queue_client(one.name)
        found[f"queue {one.name}"] = [message.content for message in queue.peek_messages(32)]
    return found


def test_a_mark_is_in_no_byte_of_storage_after_the_proof(tmp_path):
    """Another job with another mark stays whole, which shows that the search finds a mark in each of these places."""
    with Azurite.start(tmp_path) as own:
        provision(own.connection_string, topology())
        app = WholeApp(own.connection_string, workload=Quoting())
        with app.metered, app.others:
            for job, mark in (("gone", MARK), ("kept", OTHER)):
                submit(app, job, mark)
                flood(app, job, mark)
            app.work_off()
            tick(app, 8, 16)
            before = {place.split("/")[1] for place in places_of(MARK, kept_in(app))}
            others = {place.split("/")[1] for place in places_of(OTHER, kept_in(app))}
            assert before == others
            assert {
                "table parked",
                "table decisions",
                "table totals",
                "container parked",
                "container outputs",
            } <= before
            assert {"container payloads", "container plans", "container results"} <= before
            for job in ("gone", "gone-filed"):
                app.stores.job_eraser.erase(job, **WHY)
            tick(app, 6)
            assert [app.read(job).proof["found"] for job in ("gone", "gone-filed")] == [0, 0]
            assert list(places_of(MARK, kept_in(app))) == []
            assert {place.split("/")[1] for place in places_of(OTHER, kept_in(app))} == others
            assert not any(MARK in one.body.encode() for one in app.bus.waiting("results"))
    left = [file for file in tmp_path.rglob("*") if file.is_file() and has_mark(file.read_bytes(), MARK)]
    # Bytes of which Azurite has neither a blob nor a message stay in its extents until its next look for them.
    assert [file.name for file in left if file.parent.name not in {"__blobstorage__", "__queuestorage__"}] == []
