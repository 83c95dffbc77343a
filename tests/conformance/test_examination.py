"""A run against the stand-ins as they are: everything holds, it costs no more than it says, and nothing stays."""

from datetime import UTC, datetime, timedelta
from threading import Event

import pytest
from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError
from azure.storage.blob import ResourceTypes
from servicebus_local.entities import DeliveryRules, Namespace, Queue
from servicebus_local.launcher import Broker

from shared.azure import Connections, usage_of_counts
from shared.azure.meter import BUS
from shared.azure.transport import PlainTransport
from tests.conformance.storage_proxy import EVERYTHING, Reply, connection_string, in_front_of
from tests.waiting import LIMIT, until
from tools.conformance import PREFIX, PROPERTIES, REQUESTS, State, examination, examine, new_nonce
from tools.conformance.belongings import UncheckableError
from tools.conformance.bus_site import prepared
from tools.conformance.bus_wishes import LOCK, LOCKS
from tools.conformance.leftovers import find_leftovers
from tools.conformance.scene import CheckEntry

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)


def states(report):
    """Return the state of each property."""
    return {one.property.key: one.state for one in report.findings}


def left_in(azurite):
    """Return what begins with the doctor's name in the account."""
    with Connections(azurite.connection_string) as all_of:
        names = [one.name for one in all_of.blobs.list_containers()]
        names += [one.name for one in all_of.queues.list_queues()]
        names += [one.name for one in all_of.tables.list_tables()]
        settings = all_of.blobs.get_container_client("settings")
        names += list(settings.list_blob_names()) if settings.exists() else []
    return [name for name in names if name.startswith((PREFIX, PREFIX.replace("-", "")))]


def test_everything_holds_at_the_stand_ins_and_nothing_stays(azurite, broker):
    """Each property is tried, with no more requests than the price says."""
    ended = []
    with Connections(azurite.connection_string, broker.connection_string, retries=0) as connections:
        report = examine(connections, PROPERTIES, NOW, new_nonce(NOW), lambda *numbers: ended.append(numbers))
        counts = usage_of_counts(connections.meter.tally.counts())
    assert [one for one in report.findings if one.state is not State.HOLDS] == []
    assert set(states(report)) == set(PROPERTIES)
    assert (report.ok, report.left, report.borrowed) == (True, [], [])
    assert [one for one, _ in ended] == list(range(1, ended[0][1] + 1))
    assert left_in(azurite) == []
    with Connections("", broker.connection_string) as connections, connections.bus_administration() as admin:
        assert not [one.name for one in (*admin.list_queues(), *admin.list_topics()) if one.name.startswith(PREFIX)]
    used = {}
    for charge, number in counts.items():
        used[charge.meter] = used.get(charge.meter, 0) + number
    told = {charge.meter: number for charge, number in REQUESTS.items()}
    # Deletions of blobs are free. The bus is not counted by the transport.
    assert {meter for meter in used if used[meter] > told.get(meter, 0)} <= {"blob-delete"}
    assert set(told) <= {*used, BUS}


def test_a_bus_without_administration_and_prepared_entities_is_unchecked(azurite, broker, monkeypatch):
    """The reason says both, and where to read on."""

    def silent(*_, **__):
        raise ServiceRequestError("nothing listens")

    monkeypatch.setattr(PlainTransport, "send", silent)
    with Connections(azurite.connection_string, broker.connection_string, retries=0) as connections:
        report = examine(connections, ["bus.duplicates"], NOW, new_nonce(NOW), lambda *_: None)
    (finding,) = report.findings
    assert (finding.state, report.left) == (State.UNCHECKED, [])
    assert "administration of the bus does not answer" in finding.why
    assert "docs/proof.md" in finding.why


def test_a_login_that_may_make_no_entities_uses_the_prepared_ones(azurite, monkeypatch):
    """On a bus of which it may use the messages alone."""

    def refuse(*_, **__):
        raise ClientAuthenticationError("Manage is required")

    monkeypatch.setattr(PlainTransport, "send", refuse)
    prepared_ones = Namespace((Queue(prepared(LOCKS.name), DeliveryRules(lock=LOCK)),))
    with (
        Broker.start(prepared_ones) as bus,
        Connections(azurite.connection_string, bus.connection_string) as connections,
    ):
        report = examine(connections, ["bus.lock"], NOW, new_nonce(NOW), lambda *_: None)
    assert (report.ok, [one.state for one in report.findings]) == (True, [State.HOLDS])


def refusing_to_make(one, forward):
    """Refuse as storage does when a login may make no container, table or queue."""
    makes = one.method == "PUT" and (one.query.get("restype") == "container" or one.service == "queue")
    if makes or (one.service == "table" and one.path.endswith("Tables")):
        return Reply(403, {"x-ms-error-code": "AuthorizationPermissionMismatch"}, b"")
    return forward(one)


def test_a_login_that_may_make_nothing_works_in_the_apps_places(provisioned):
    """With names of its own there, which it removes. What it may not do is named with the role."""
    keys = ["blob.insert", "blob.listing", "table.insert", "table.order", "queue.peek"]
    with in_front_of(provisioned, refusing_to_make) as storage, Connections(storage, retries=0) as connections:
        report = examine(connections, keys, NOW, new_nonce(NOW), lambda *_: None)
    found = states(report)
    assert {found.pop("queue.peek")} == {State.UNCHECKED}
    assert set(found.values()) == {State.HOLDS}
    (queues,) = [one.why for one in report.findings if one.why]
    assert "role Storage Queue Data Contributor" in queues
    assert sorted(report.borrowed) == ["container settings", "table usage"]
    assert report.left == []
    assert left_in(provisioned) == []
    with Connections(provisioned.connection_string) as whole:
        assert list(whole.tables.get_table_client("usage").query_entities(f"PartitionKey ge '{PREFIX}'")) == []


def test_what_a_login_may_not_remove_is_named(provisioned):
    """It may write blobs and rows, and may list neither, so it cannot find its own again."""
    storage = connection_string(provisioned, provisioned.ports, (ResourceTypes(object=True), EVERYTHING))
    nonce = new_nonce(NOW)
    with Connections(storage, retries=0) as connections:
        report = examine(connections, ["blob.insert", "blob.listing", "table.insert"], NOW, nonce, lambda *_: None)
    reasons = {one.property.key: one.why for one in report.findings}
    assert "role Storage Blob Data Contributor" in reasons["blob.listing"]
    names = {one.kind: one.name for one in report.left}
    assert names == {"blobs": f"settings/{PREFIX}-{nonce}/*", "rows": f"usage/{PREFIX}-{nonce}-*"}
    assert not report.ok
    with Connections(provisioned.connection_string) as whole:
        container, table = whole.blobs.get_container_client("settings"), whole.tables.get_table_client("usage")
        assert [container.delete_blob(name) for name in container.list_blob_names(name_starts_with=PREFIX)]
        rows = list(table.query_entities(f"PartitionKey ge '{PREFIX}'"))
        assert [table.delete_entity(row["PartitionKey"], row["RowKey"]) for row in rows]


def make_places(connections, nonce):
    """Make the places of a run that was killed, and return their names by kinds."""
    prefix = f"{PREFIX}-{nonce}"
    connections.queues.create_queue(f"{prefix}-peek")
    connections.blobs.create_container(prefix)
    connections.blobs.get_blob_client("settings", f"{prefix}/insert").upload_blob(b"")
    connections.tables.create_table(f"sluicedoctor{nonce}")
    connections.tables.get_table_client("usage").create_entity({"PartitionKey": f"{prefix}-a", "RowKey": "r"})
    with connections.bus_administration() as admin:
        admin.create_queue(f"{prefix}-locks")
        admin.create_topic(f"{prefix}-colours")
    return {
        ("queue", f"{prefix}-peek"),
        ("container", prefix),
        ("blobs", f"settings/{prefix}/*"),
        ("table", f"sluicedoctor{nonce}"),
        ("rows", f"usage/{prefix}-*"),
        ("bus queue", f"{prefix}-locks"),
        ("topic", f"{prefix}-colours"),
    }


def places(connections):
    """Return the places of killed runs, from much later on."""
    return {(one.kind, one.name) for one in find_leftovers(connections, NOW + timedelta(days=1))}


def test_places_of_a_killed_run_are_removed_by_the_next(provisioned, broker):
    """Those of a run that may go on stay, and so do those whose names say no time."""
    killed, running = new_nonce(NOW - timedelta(hours=1)), new_nonce(NOW - timedelta(minutes=9))
    with Connections(provisioned.connection_string, broker.connection_string) as connections:
        old, young = make_places(connections, killed), make_places(connections, running)
        connections.queues.create_queue(f"{PREFIX}-sessions")
        try:
            report = examine(connections, ["blob.insert"], NOW, new_nonce(NOW), lambda *_: None)
            assert ({(one.kind, one.name) for one in report.swept}, report.left, report.ok) == (old, [], True)
            assert places(connections) == young
            late = examine(connections, ["blob.insert"], NOW + timedelta(minutes=2), new_nonce(NOW), lambda *_: None)
            assert ({(one.kind, one.name) for one in late.swept}, places(connections)) == (young, set())
        finally:
            connections.queues.delete_queue(f"{PREFIX}-sessions")


def test_a_login_that_may_list_nothing_sweeps_nothing(provisioned):
    """And its checks go on."""
    storage = connection_string(provisioned, provisioned.ports, (ResourceTypes(object=True), EVERYTHING))
    with Connections(storage, retries=0) as connections:
        assert find_leftovers(connections, NOW) == []


def test_an_interruption_waits_for_no_check(azurite, monkeypatch):
    """One that listens to a service goes on, and makes nothing any more."""
    interrupted, tried = Event(), []

    def stuck(scene):
        assert interrupted.wait(LIMIT)
        with pytest.raises(UncheckableError, match="the run is over"):
            scene.site.queue("late")
        tried.append("a queue")

    def quick(scene):
        scene.site.queue("early")

    def interrupt(*_):
        raise KeyboardInterrupt

    entries = (CheckEntry(stuck, ("queue.peek",)), CheckEntry(quick, ("queue.receipt",)))
    monkeypatch.setattr(examination, "CHECKS", entries)
    with Connections(azurite.connection_string) as connections:
        report = examine(connections, ["queue.peek", "queue.receipt"], NOW, new_nonce(NOW), interrupt)
        assert (tried, report.left, left_in(azurite)) == ([], [], [])
        assert {one.why for one in report.findings} == {"the run was interrupted"}
        interrupted.set()
        until(lambda: tried)
