"""`sluice ids`, against real blobs."""

import dataclasses
import json
import time
from datetime import UTC, datetime

import pytest

from capabilities.registration.flows import ORDER_NUMBERS, RegistrationStores
from capabilities.registration.order import order_home
from shared.app import TRANSACTION_IDS, Stores
from shared.azure.connections import Connections
from shared.ids import RangeGenerator
from shared.ledger.records import Job, JobState, PlanBlob
from shared.processes import Alias


def test_numbers_drawn_one_after_another_never_repeat(sluice):
    """Each call is a process of its own, and each number is new."""
    drawn = [int(sluice("ids", "next", "cli-order").stdout) for _ in range(3)]
    assert len(set(drawn)) == 3


def test_a_block_has_no_gaps(sluice):
    """`--count` gives adjoining numbers, one a line."""
    lines = sluice("ids", "next", "cli-block", "--count", "25").stdout.split()
    first = int(lines[0])
    assert [int(line) for line in lines] == list(range(first, first + 25))


def test_a_drawn_number_has_a_story(sluice):
    """Who held it and when can be asked afterwards, as a sentence and as JSON."""
    number = sluice("ids", "next", "cli-story").stdout.strip()
    told = json.loads(sluice("ids", "explain", "cli-story", number, "--json").stdout)
    assert (told["number"], told["fate"]) == (int(number), "handed out")
    assert told["reservation"]["node"] in sluice("ids", "explain", "cli-story", number).stdout


def test_a_number_that_nobody_drew_is_said_to_be_free(sluice):
    """The story of a number above all drawn ones is that it is not reserved."""
    sluice("ids", "next", "cli-free")
    assert "not reserved" in sluice("ids", "explain", "cli-free", "999999").stdout


def test_the_status_shows_the_next_number_and_the_last_changes(sluice):
    """What the next process will get, and who came before it."""
    number = int(sluice("ids", "next", "cli-status").stdout)
    said = json.loads(sluice("ids", "status", "cli-status", "--json").stdout)
    assert said["next"] > number
    assert {"reserved"} <= {event["kind"] for event in said["events"]}
    assert f"is {said['next']}" in sluice("ids", "status", "cli-status").stdout


def test_a_sequence_nobody_used_is_a_problem_not_a_number(sluice):
    """A misspelt sequence is noticed, and looking at it does not create it."""
    for _ in range(2):
        done = sluice("ids", "status", "cli-misspelt")
        assert (done.returncode, "check its spelling" in done.stderr) == (1, True)


def test_storage_that_is_down_is_one_line(sluice, stack_settings):
    """No traceback: what was tried, and what to do."""
    gone = stack_settings | {
        "SluiceStorage": "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=YQ==;BlobEndpoint=http://127.0.0.1:9/a;"
    }
    done = sluice("ids", "next", "cli-down", settings=gone)
    assert done.returncode == 1
    assert done.stderr.startswith("sluice: ")
    assert done.stderr.count("\n") == 1


@pytest.fixture
def stores(stack_settings):
    """The stores of the run's stack."""
    with Connections.parse(stack_settings) as connections, Stores(connections) as stores:
        yield stores


@pytest.mark.parametrize("state", [JobState.COMPLETE, JobState.RUNNING])
@pytest.mark.parametrize("ends", [True, False])
def test_the_number_of_a_transaction_names_its_job(sluice, stores, state, ends):
    """Whether its process has ended since or not; an ended job by the list, an open one by its row."""
    name, store = f"cli-ids-{time.monotonic_ns()}", stores.sequence(TRANSACTION_IDS)
    ids = RangeGenerator(store, prefetch=False)
    first = ids.next_ids(10).start
    planning = Job(job=name, content_hash="0" * 64, workload="billing", accepted_at=datetime.now(UTC), items=10)
    known = stores.ledger.insert(planning)[0]
    fields = {"plan": PlanBlob(f"{name}/plan", "e"), "id_base": first, "state": state, "chunks": 1}
    stores.ledger.commit(dataclasses.replace(known, **fields))
    if ends:
        ids.close()
    told = sluice("ids", "explain", TRANSACTION_IDS, str(first + 9))
    assert told.returncode == 0, told.stderr
    assert f"{first + 9} belongs to job {name}, reserved by " in told.stdout
    assert f"sluice jobs show {name}" in told.stdout
    assert "lost with the process" not in told.stdout
    document = json.loads(sluice("ids", "explain", TRANSACTION_IDS, str(first), "--json").stdout)
    assert (document["job"], document["order"]) == (name, None)
    ids.close()


def test_a_number_that_no_job_has_says_so(sluice, stores):
    """It was drawn and dropped; or by a sequence of one's own, whose users nobody knows here."""
    with RangeGenerator(stores.sequence(TRANSACTION_IDS), prefetch=False) as ids:
        gap = ids.next_ids(1).start
    told = sluice("ids", "explain", TRANSACTION_IDS, str(gap)).stdout
    assert "no job was found that has it" in told
    assert "sluice jobs reindex" in told
    number = sluice("ids", "next", "cli-own").stdout.strip()
    assert "who uses cli-own is not known here" in sluice("ids", "explain", "cli-own", number).stdout


def test_the_number_of_an_order_names_it(sluice, stores):
    """By the alias by which its customer finds it: one request."""
    with RangeGenerator(stores.sequence(ORDER_NUMBERS), prefetch=False) as ids:
        number = ids.next_ids(1).start
    assert "no order has it" in sluice("ids", "explain", ORDER_NUMBERS, str(number)).stdout
    if "agenda" not in {table.name for table in stores.connections.tables.list_tables()}:
        stores.connections.tables.create_table("agenda")
    RegistrationStores(stores).agenda.write([Alias(number, order_home("o-77"))])
    told = sluice("ids", "explain", ORDER_NUMBERS, str(number)).stdout
    assert f"{number} belongs to order o-77" in told
    assert "sluice orders show o-77" in told
