"""The storage in memory answers as Azurite does: the same calls of the real libraries, one after the other on both.

The calls are those that the app makes; each is made with keys that are there and that are not, and with ETags and
receipts that are good, old and missing. What is compared is what the caller sees: the value, or the refusal.
"""

import random
import uuid

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import AzureError, HttpResponseError, ResourceExistsError
from azure.data.tables import UpdateMode
from azure.storage.blob import BlobLeaseClient

from shared.azure import error_code
from tests.faults.memory.storage import MemoryStorage

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.ci("further calls of both storages")) for seed in range(1, 4))]
CALLS = 60
#: Nothing that a library would have to escape is left out of what comes from outside.
NAMES = ("a", "b/c", "ü 'x'", "d%20e")
#: ETags of versions that were never there, as the services write them.
OLD_BLOB, OLD_ROW = '"0x1"', "W/\"datetime'2020-01-01T00%3A00%3A00.0000000Z'\""
KEYS = ("a", "b|c", "ü 'x'", "d~")


class Actor:
    """Makes random calls and keeps what it was told, without what differs from storage to storage."""

    def __init__(self, connections, seed):
        self._random = random.Random(seed)
        self.blobs = connections.blobs.get_container_client("payloads")
        self.queue = connections.queues.get_queue_client("work-00")
        self.table = connections.tables.get_table_client("jobs")
        self.etags, self.receipts, self.leases, self.told = {}, [], {}, []

    def run(self, calls):
        """Make so many calls, each drawn by its name."""
        names = sorted(name for name in dir(self) if name.startswith(calls))
        for _ in range(CALLS):
            name = self._random.choice(names)
            try:
                outcome = getattr(self, name)()
            except HttpResponseError as error:
                outcome = f"{error.status_code} {error_code(error)}"
            except AzureError as error:
                outcome = type(error).__name__
            self.told.append((name, outcome))
        return self.told

    def _one_of(self, things):
        return self._random.choice(list(things))

    def _condition(self, name):
        """A good ETag mostly, else an old one or none at all."""
        known = self.etags.get(name, [OLD_ROW if isinstance(name, tuple) else OLD_BLOB])
        drawn = self._random.random()
        if drawn < 0.3:
            return {}
        etag = known[-1] if drawn < 0.7 else known[0]
        return {"etag": etag, "match_condition": MatchConditions.IfNotModified}

    def _wrote(self, name, etag):
        self.etags.setdefault(name, []).append(etag)
        return "written"

    def blob_put(self):
        """Upload, whatever is there."""
        name, body = self._one_of(NAMES), self._random.randbytes(self._random.randint(0, 40))
        made = self.blobs.upload_blob(name, body, overwrite=True, metadata={"n": str(len(body))})
        return self._wrote(name, made.get_blob_properties().etag)

    def blob_put_once(self):
        """Upload if nothing is there."""
        name = self._one_of(NAMES)
        made = self.blobs.upload_blob(name, b"once", overwrite=False)
        return self._wrote(name, made.get_blob_properties().etag)

    def blob_put_unchanged(self):
        """Upload over the version that is known."""
        name = self._one_of(NAMES)
        options = self._condition(name) or {"match_condition": MatchConditions.IfMissing}
        made = self.blobs.get_blob_client(name).upload_blob(b"changed", overwrite="etag" in options, **options)
        return self._wrote(name, made["etag"])

    def blob_begin(self):
        """Make one that grows, if nothing is there."""
        name = self._one_of(NAMES)
        return self._wrote(name, self.blobs.get_blob_client(name).create_append_blob(if_none_match="*")["etag"])

    def blob_append(self):
        """Add to its end, of whatever kind it is."""
        name = self._one_of(NAMES)
        return self._wrote(name, self.blobs.get_blob_client(name).append_block(b"more")["etag"])

    def blob_touch(self):
        """Write metadata, so that the version changes."""
        name = self._one_of(NAMES)
        made = self.blobs.get_blob_client(name).set_blob_metadata({"touched": "yes"})
        return self._wrote(name, made["etag"])

    def blob_read(self):
        """Read all of it, perhaps only if it is unchanged."""
        name = self._one_of(NAMES)
        found = self.blobs.download_blob(name, **self._condition(name))
        return found.readall(), dict(found.properties.metadata)

    def blob_read_part(self):
        """Read a range that may reach over the end."""
        offset, length = self._random.randint(0, 30), self._random.randint(1, 30)
        return self.blobs.download_blob(self._one_of(NAMES), offset=offset, length=length).readall()

    def blob_look(self):
        """Ask for its properties."""
        found = self.blobs.get_blob_client(self._one_of(NAMES)).get_blob_properties()
        return found.size, dict(found.metadata)

    def blob_delete(self):
        """Delete it, perhaps only if it is unchanged."""
        name = self._one_of(NAMES)
        return self.blobs.delete_blob(name, **self._condition(name))

    def blob_list(self):
        """List what begins with something."""
        begin = self._one_of(["", "b/", "nothing"])
        return [(found.name, found.size) for found in self.blobs.list_blobs(name_starts_with=begin)]

    def lease_begin(self):
        """Make an empty blob to be leased, if nothing is there."""
        return self.blobs.upload_blob(self._one_of(NAMES[:2]), b"", overwrite=False).blob_name

    def lease_take(self):
        """Take the lease of a blob, unless somebody has it."""
        name = self._one_of(NAMES[:2])
        self.leases.setdefault(name, []).append(self.blobs.get_blob_client(name).acquire_lease(60))
        return "leased"

    def lease_remove(self):
        """Delete a blob by its lease or an older one, or by none."""
        name = self._one_of(NAMES[:2])
        lease = self._one_of([*self.leases.get(name, []), None])
        return self.blobs.get_blob_client(name).delete_blob(lease=lease)

    def lease_renew(self):
        """Renew a lease or an older one of a blob."""
        name = self._one_of(NAMES[:2])
        if leases := self.leases.get(name):
            self._one_of(leases).renew()
        return "renewed"

    def lease_release(self):
        """Release a lease or an older one of a blob."""
        name = self._one_of(NAMES[:2])
        if leases := self.leases.get(name):
            lease = self._one_of(leases)
            lease.release()
            # The library forgets its id.
            leases.remove(lease)
        return "released"

    def lease_list(self):
        """List the blobs with the states of their leases."""
        return [(found.name, found.lease.state) for found in self.blobs.list_blobs()]

    def lease_break(self):
        """End the lease of a blob, whoever has it."""
        return BlobLeaseClient(self.blobs.get_blob_client(self._one_of(NAMES[:2]))).break_lease(0)

    def queue_put(self):
        """Put a message; the next is hidden by nobody."""
        return self.queue.send_message(self._one_of(['{"a": 1}', "<ü & 'x'>", ""]), time_to_live=-1).content

    def queue_take(self):
        """Take some messages for a long time, in the order that they were put."""
        found = list(self.queue.receive_messages(max_messages=self._random.randint(1, 3), visibility_timeout=600))
        self.receipts += [(message.id, message.pop_receipt) for message in found]
        return [(message.content, message.dequeue_count) for message in found]

    def queue_peek(self):
        """Look at messages without taking them."""
        found = self.queue.peek_messages(max_messages=self._random.randint(1, 3))
        return [(message.content, message.dequeue_count, message.pop_receipt) for message in found]

    def queue_delete(self):
        """Delete by a receipt, which may be used up."""
        name, receipt = self._one_of(self.receipts or [(str(uuid.UUID(int=1)), "bm9uZQ==")])
        return self.queue.delete_message(name, receipt)

    def queue_put_back(self):
        """Make it visible at once, for which the old receipt is no longer good."""
        name, receipt = self._one_of(self.receipts or [(str(uuid.UUID(int=1)), "bm9uZQ==")])
        made = self.queue.update_message(name, receipt, visibility_timeout=0)
        self.receipts.append((name, made.pop_receipt))
        return "visible"

    def queue_count(self):
        """Count them, hidden ones as well."""
        return self.queue.get_queue_properties().approximate_message_count

    def _entity(self):
        key, number = self._one_of(KEYS), self._random.randint(0, 9)
        return {"PartitionKey": self._one_of(["p", "q'"]), "RowKey": key, self._one_of(["n", "m"]): number, "s": key}

    def _name(self, entity):
        return entity["PartitionKey"], entity["RowKey"]

    def table_insert(self):
        """Insert."""
        entity = self._entity()
        return self._wrote(self._name(entity), self.table.create_entity(entity)["etag"])

    def table_upsert(self):
        """Write, whatever is there, over it or into it."""
        entity = self._entity()
        mode = self._one_of([UpdateMode.REPLACE, UpdateMode.MERGE])
        return self._wrote(self._name(entity), self.table.upsert_entity(entity, mode=mode)["etag"])

    def table_update(self):
        """Write over the version that is known."""
        entity = self._entity()
        mode = self._one_of([UpdateMode.REPLACE, UpdateMode.MERGE])
        made = self.table.update_entity(entity, mode=mode, **self._condition(self._name(entity)))
        return self._wrote(self._name(entity), made["etag"])

    def table_delete(self):
        """Delete, perhaps only if it is unchanged."""
        entity = self._entity()
        return self.table.delete_entity(*self._name(entity), **self._condition(self._name(entity)))

    def table_get(self):
        """Read one."""
        return dict(self.table.get_entity(*self._name(self._entity())))

    def table_query(self):
        """Read a range of a partition, a few at a time."""
        words, known = "PartitionKey eq @p and RowKey ge @low and RowKey lt @high", {"p": "p", "low": "a", "high": "e"}
        found = self.table.query_entities(words, parameters=known, results_per_page=self._random.randint(1, 3))
        return [dict(entity) for entity in found]

    def table_list(self):
        """Read all of it, or one column."""
        return [dict(entity) for entity in self.table.list_entities(select=self._one_of([None, ["n"]]))]

    def table_change(self):
        """Write several together, of which each may be refused."""
        entities = {
            self._name(entity)[1]: {**entity, "PartitionKey": "p"} for entity in (self._entity(), self._entity())
        }
        parts = [self._part(entity) for entity in entities.values()]
        made = self.table.submit_transaction(parts)
        for (_, entity, *_), one in zip(parts, made, strict=True):
            if "etag" in one:
                self._wrote(self._name(entity), one["etag"])
        return len(made)

    def _part(self, entity):
        kind = self._one_of(["create", "upsert", "update", "delete"])
        return (kind, entity, self._condition(self._name(entity))) if kind == "update" else (kind, entity)


def told_by(storage, calls, seed):
    """Return what a storage tells whoever makes these calls."""
    with storage.connections() as connections:
        return Actor(connections, f"{calls}{seed}").run(calls)


@pytest.fixture
def real(accounts):
    """A storage on Azurite that nobody has used."""
    return accounts.fresh()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("calls", ["blob_", "lease_", "queue_", "table_"])
def test_both_tell_the_same(real, calls, seed):
    """The n-th call has the same outcome on both."""
    mine, theirs = told_by(MemoryStorage(), calls, seed), told_by(real, calls, seed)
    different = [(n, *pair) for n, pair in enumerate(zip(mine, theirs, strict=True)) if pair[0] != pair[1]]
    assert different == []


@pytest.mark.parametrize("kind", ["memory", "azurite"])
def test_what_is_made_is_empty_and_is_there_once(real, kind):
    """A table that is removed may be made again."""
    storage = MemoryStorage() if kind == "memory" else real
    with storage.connections() as connections:
        for make in (connections.tables.create_table, connections.blobs.create_container):
            make("madehere")
            with pytest.raises(ResourceExistsError):
                make("madehere")
        connections.queues.create_queue("madehere")
        for listed in (
            connections.tables.list_tables(),
            connections.blobs.list_containers(),
            connections.queues.list_queues(name_starts_with="made"),
        ):
            assert "madehere" in {one.name for one in listed}
        connections.queues.delete_queue("madehere")
        assert list(connections.tables.get_table_client("madehere").list_entities()) == []
        assert list(connections.blobs.get_container_client("madehere").list_blobs()) == []
        connections.tables.delete_table("madehere")
        connections.tables.create_table("madehere")


@pytest.mark.parametrize("kind", ["memory", "azurite"])
def test_what_is_removed_is_missing_until_it_is_made_again(real, kind):
    """Each request says so. Then it is empty."""
    storage, row = MemoryStorage() if kind == "memory" else real, {"PartitionKey": "p", "RowKey": "r"}
    with storage.connections() as connections:
        queue = connections.queues.get_queue_client("work-00")
        blobs = connections.blobs.get_container_client("payloads")
        table = connections.tables.get_table_client("jobs")
        asks = [
            ("QueueNotFound", lambda: queue.send_message("x", time_to_live=-1)),
            ("QueueNotFound", lambda: list(queue.receive_messages())),
            ("QueueNotFound", queue.get_queue_properties),
            ("ContainerNotFound", lambda: blobs.upload_blob("a", b"x")),
            ("ContainerNotFound", lambda: list(blobs.list_blobs())),
            ("ContainerNotFound", lambda: blobs.download_blob("a")),
            # The library does not read the code of this refusal.
            ("ResourceNotFoundError", lambda: table.create_entity(row)),
            ("TableNotFound", lambda: table.get_entity("p", "r")),
            ("TableNotFound", lambda: table.upsert_entity(row)),
            ("TableNotFound", lambda: table.submit_transaction([("upsert", row)])),
            ("TableNotFound", lambda: list(table.list_entities())),
        ]
        for _, ask in asks:
            ask()
        connections.queues.delete_queue("work-00")
        connections.blobs.delete_container("payloads")
        connections.tables.delete_table("jobs")
        for code, ask in asks:
            with pytest.raises(HttpResponseError) as refused:
                ask()
            assert (refused.value.status_code, error_code(refused.value)) == (404, code)
        connections.queues.create_queue("work-00")
        connections.blobs.create_container("payloads")
        connections.tables.create_table("jobs")
        assert [list(queue.receive_messages()), list(blobs.list_blobs()), list(table.list_entities())] == [[]] * 3


@pytest.mark.parametrize("kind", ["memory", "azurite"])
def test_a_hidden_message_comes_back(real, kind):
    """It does when its time is up, counted once more, and its old receipt is no longer good."""
    storage = MemoryStorage() if kind == "memory" else real
    with storage.connections() as connections:
        queue = connections.queues.get_queue_client("work-00")
        queue.send_message("x", time_to_live=-1)
        (first,) = queue.receive_messages(visibility_timeout=600)
        assert list(queue.receive_messages()) == []
        # Its time is short only where nothing has to happen within it.
        first.pop_receipt = queue.update_message(first, visibility_timeout=1).pop_receipt
        storage.wait(1.5)
        (second,) = queue.receive_messages(visibility_timeout=30)
        assert (second.id, second.dequeue_count) == (first.id, 2)
        with pytest.raises(HttpResponseError) as refused:
            queue.delete_message(first)
        assert error_code(refused.value) == "PopReceiptMismatch"
        queue.delete_message(second)
        assert queue.get_queue_properties().approximate_message_count == 0
