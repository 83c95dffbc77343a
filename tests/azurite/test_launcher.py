"""The Azurite launcher, against the real Azurite."""

import signal
import socket
import sys
from pathlib import Path

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

from tests.waiting import LIMIT
from tools.local.azurite import launcher
from tools.local.azurite.launcher import SERVICES, Account, Azurite
from tools.local.errors import StartError


def queues_of(azurite):
    """Return a client of the queue service."""
    return QueueServiceClient.from_connection_string(azurite.connection_string)


def test_all_three_services_answer_the_current_sdks(azurite):
    """Blob, queue and table take requests from the SDK versions in the lock."""
    with BlobServiceClient.from_connection_string(azurite.connection_string) as blobs:
        blobs.create_container("con").upload_blob("b", b"1")
    with queues_of(azurite) as queues:
        queues.create_queue("que").send_message("1")
    with TableServiceClient.from_connection_string(azurite.connection_string) as tables:
        assert tables.create_table("tab").upsert_entity({"PartitionKey": "p", "RowKey": "r"})


def test_data_lasts_over_a_restart_with_the_same_account(tmp_path):
    """With a folder for its data: whether it is stopped, or ends with the process that started it.

    A process that was killed closes its end of the pipe.
    """
    account = Account.random()
    with Azurite.start(tmp_path / "data", account=account) as azurite, queues_of(azurite) as queues:
        queues.create_queue("que").send_message("kept")
        azurite.process.stdin.close()
        azurite.process.wait(LIMIT)
    with Azurite.start(tmp_path / "data", account=account) as again, queues_of(again) as queues:
        assert [one.content for one in queues.get_queue_client("que").peek_messages()] == ["kept"]
        queues.get_queue_client("que").send_message("kept too")
    with Azurite.start(tmp_path / "data", account=account) as again, queues_of(again) as queues:
        found = queues.get_queue_client("que").receive_messages()
        assert [one.content for one in found] == ["kept", "kept too"]


def test_a_row_is_found_by_both_keys_whichever_index_leads_to_it(azurite):
    """Keys that are equal as numbers are different texts; a removed row is gone from both indexes."""
    keys = [(partition, row) for partition in ("p", "q", "1", "01") for row in ("r", "1", "01", "1.0")]
    with TableServiceClient.from_connection_string(azurite.connection_string) as tables:
        table = tables.create_table("found")
        for number, (partition, row) in enumerate(keys):
            table.create_entity({"PartitionKey": partition, "RowKey": row, "number": number})
        table.update_entity({"PartitionKey": "q", "RowKey": "1", "number": 100})
        table.delete_entity("q", "01")
        left = {key: number for number, key in enumerate(keys) if key != ("q", "01")} | {("q", "1"): 100}
        assert {key: table.get_entity(*key)["number"] for key in left} == left
        for missing in (("q", "01"), ("q", "2"), ("2", "1"), ("", "")):
            with pytest.raises(ResourceNotFoundError):
                table.get_entity(*missing)


def test_a_blob_is_found_by_its_container_and_its_name(azurite):
    """One name in two containers, and two names in one."""
    with BlobServiceClient.from_connection_string(azurite.connection_string) as blobs:
        containers = {name: blobs.create_container(name) for name in ("one", "two")}
        for container, name in (("one", "a"), ("one", "b"), ("two", "a")):
            containers[container].upload_blob(name, f"{container} {name}".encode())
        containers["one"].delete_blob("a")
        assert containers["one"].download_blob("b").readall() == b"one b"
        assert containers["two"].download_blob("a").readall() == b"two a"
        assert not containers["one"].get_blob_client("a").exists()
        assert not containers["two"].get_blob_client("b").exists()


def test_a_taken_port_is_named_as_the_reason():
    """The error of a taken port says so and says what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = dict.fromkeys(SERVICES, 0) | {"queue": taken.getsockname()[1]}
        with pytest.raises(StartError, match="port taken: stop the process that uses it") as error:
            Azurite.start(ports=ports)
    assert "\n" not in str(error.value)


def listeners(ports):
    """Return how many sockets of this machine listen on each of these ports."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="utf-8").splitlines()[1:]]
    listening = [int(place.rpartition(":")[2], 16) for _, place, _, state, *_ in lines if state == "0A"]
    return {listening.count(port) for port in ports}


def test_two_run_side_by_side_and_one_that_stops_leaves_nothing_behind(azurite):
    """Ports and accounts are never shared, so that two stacks on one machine do not meet. A SIGTERM loses no write."""
    other = Azurite.start()
    assert not set(other.ports.values()) & set(azurite.ports.values())
    assert other.account != azurite.account
    other.stop()
    assert other.process.returncode in {0, -signal.SIGTERM}
    assert not other.log.exists()
    with Azurite.start(ports=other.ports) as chosen:
        assert chosen.ports == other.ports
        if sys.platform == "linux":
            assert listeners(chosen.ports.values()) == {1}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux deals connections out to several listeners")
def test_a_port_has_several_listeners_unless_it_was_chosen(azurite):
    """Node takes one connection in each turn of its loop. A chosen port could be another program's too by this."""
    assert listeners(azurite.ports.values()) == {16}
    for _ in range(64):
        with queues_of(azurite) as queues:
            assert list(queues.list_queues()) is not None


def test_a_missing_installation_names_the_command_that_installs_it(monkeypatch, tmp_path):
    """Without the npm package the error names `make setup`."""
    monkeypatch.setattr(launcher, "AZURITE_SCRIPT", tmp_path / "azurite.js")
    with pytest.raises(StartError, match="make setup"):
        Azurite.start()


def write_script(folder, text):
    """Write what runs in place of Azurite, with its packages beside it."""
    (folder / "node_modules").symlink_to(launcher.AZURITE_SCRIPT.parents[3])
    script = folder / "azurite.js"
    script.write_text(text)
    return script


def test_a_start_that_hangs_is_given_up(monkeypatch, tmp_path):
    """A process that never listens is stopped at the deadline, and its log is kept and named."""
    silent = write_script(tmp_path, "setInterval(() => {}, 1000); console.log('thinking');")
    monkeypatch.setattr(launcher, "AZURITE_SCRIPT", silent)
    with pytest.raises(StartError, match=r"did not start in time: .*make clean setup.*thinking"):
        Azurite.start(deadline=1.0)


def test_an_early_end_shows_what_it_said(monkeypatch, tmp_path):
    """A process that ends at once is reported with its exit status and its last words."""
    broken = write_script(tmp_path, "console.error('no such flag'); process.exit(3);")
    monkeypatch.setattr(launcher, "AZURITE_SCRIPT", broken)
    with pytest.raises(StartError, match=r"exit status 3.*no such flag"):
        Azurite.start()
