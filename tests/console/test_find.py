"""Find, and pages that fail: whatever a person typed, there is a way on."""

import pytest

from shared.errors import StorageUnavailableError
from shared.gate import HeldEntry
from shared.ledger import JobState
from shared.topology import submission_queue
from tests.console.conftest import HOST
from tests.console.fillings import NOON, hold, make_entry, make_job, park, put_job
from tests.console.hostile import TEXTS
from tests.console.test_pages import words


@pytest.fixture(autouse=True)
def things(house):
    """A job, a gate and a cause with one word in common, and two jobs beside."""
    for name in ("payroll-2026", "the-payroll", "payments"):
        put_job(house.stores, make_job(name), is_open=False)
    house.stores.gate_operator.open("payroll", by="dana")
    park(house.stores, make_entry("payments", 3, fingerprint="77aa77aa77aa77aa77", reason="no_payroll"))


def test_a_part_finds_jobs_gates_and_causes(visitor, house):
    """Four requests; any part of a job's id costs six more, and only a person who wants it pays them."""
    found, requests = house.count(lambda: visitor.get("/find?q=PAYROLL"))
    assert requests <= 4
    assert "gate payroll" in words(found)
    assert "cause 77aa77aa77aa77aa77 1 parked, no_payroll" in words(found)
    begun = words(visitor.get("/find?q=payroll"))
    assert "job payroll-2026" in begun
    assert "the-payroll" not in begun
    further, requests = house.count(lambda: visitor.get("/find?q=payroll&further=yes"))
    assert "job the-payroll" in words(further)
    assert requests <= 4 + 6


def test_one_thing_of_exactly_this_name_is_shown_at_once(visitor):
    """A number is a number of transactions too, so it is shown with what else has it."""
    there = visitor.get("/find?q=payments")
    assert (there.status_code, there.headers["Location"].removeprefix(visitor.folder)) == (303, "/job/payments")
    assert "number 5000 a number of transactions" in words(visitor.get("/find?q=5000"))
    assert "Nothing has nothing-such in its name" in words(visitor.get("/find?q=nothing-such"))
    assert visitor.get("/find").status_code == 200
    assert 'name="q"' in visitor.get("/").text


@pytest.mark.parametrize("text", TEXTS)
def test_any_text_may_be_looked_for(visitor, text):
    """It is shown and does nothing."""
    shown = visitor.client.get(f"{visitor.folder}/find", query_string={"q": text}, headers={"Host": HOST}).text
    assert shown.count("<script") == 1
    assert [one for one in shown if not one.isprintable() and one != "\n"] == []


def test_a_page_that_is_not_there_leads_on(visitor):
    """In the frame: what is wrong, a search for it, and Now."""
    for path, name in (("/job/nihgtly", "nihgtly"), ("/nowhere", "nowhere"), ("/parked/123", "123")):
        reply = visitor.get(path)
        assert (reply.status_code, "<nav" in reply.text) == (404, True)
        assert f'href="{visitor.folder}/find?q={name}"' in reply.text
        assert f'href="{visitor.folder}/"' in reply.text
    assert "<nav" not in visitor.get("/job/nihgtly?part=1").text


def test_storage_that_does_not_answer_is_tried_again(visitor, house, monkeypatch):
    """By the browser, without a script; a form that was sent is not sent again."""

    def refuse(*_):
        raise StorageUnavailableError("could not read the needs: storage does not answer")

    monkeypatch.setattr(house.stores.watch, "read", refuse)
    house.clock.advance(60)
    reply = visitor.get("/?hours=24")
    assert (reply.status_code, reply.headers["Refresh"], "<nav" in reply.text) == (503, "10", True)
    assert "storage does not answer" in reply.text
    assert f'href="{visitor.folder}/?hours=24"' in reply.text
    house.clock.advance(60)


def test_a_fault_of_our_own_is_in_the_frame_and_in_the_log(visitor, house, monkeypatch, caplog):
    """The page says nothing of what it was."""
    monkeypatch.setattr(house.snapshot, "gates", lambda _age: 1 / 0)
    reply = visitor.get("/gates")
    assert (reply.status_code, "<nav" in reply.text, "division" in reply.text) == (500, True, False)
    assert "sluice.console.failed" in caplog.text


def test_a_misspelt_gate_says_which_was_meant(visitor, house):
    """One that nothing waits behind, and that nobody opened."""
    reply = words(visitor.get("/gate/payrol"))
    assert "No gate has this name, and nothing waits behind it. Did you mean payroll ?" in reply
    assert "No gate has this name" not in words(visitor.get("/gate/payroll"))
    hold(house.stores, "waiting", 1)
    assert "No gate has this name" not in words(visitor.get("/gate/waiting"))


def test_a_gate_says_what_opening_it_would_start(visitor, house):
    """Jobs, transactions, seconds and price, above the forms; nothing is written."""
    job = make_job("held-one", chunks=10, state=JobState.HELD, gate="forecast-gate", items=5_000)
    put_job(house.stores, job, is_open=False)
    row = HeldEntry(
        gate="forecast-gate", id="held-one", epoch=1, queue=submission_queue(), message="m", held_at=NOON, chunks=10
    )
    house.stores.held.insert(row)
    house.stores.speeds.store("billing").try_write(b'{"v":1,"milliseconds":4000,"items":1000}', None)
    house.clock.advance(30)
    shown, requests = house.count(lambda: visitor.get("/gate/forecast-gate/forecast"))
    assert "Opening forecast-gate starts 1 job: 5,000 transactions in 10 chunks." in words(shown)
    assert "About 2 s with 10 tasks (bound by rule)" in words(shown)
    assert "held-one 5,000 10 2026-11-21" in words(shown)
    assert 'name="why"' in shown.text
    assert requests <= 5 + 5
    assert "what would opening it start?" in words(visitor.get("/gate/forecast-gate"))
