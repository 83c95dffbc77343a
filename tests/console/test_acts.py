"""Acts from the pages: from this console alone, once, on what the person saw, with a reason, and in the audit."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest

from shared.ledger import JobState
from tests.console.conftest import HOST
from tests.console.fillings import hold, make_entry, make_job, park, put_job

ORIGIN = f"http://{HOST}"


class Form:
    """A form of a page, filled in."""

    def __init__(self, visitor, path, button):
        self.visitor, text = visitor, visitor.get(path).text
        (self.html,) = [one for one in re.findall(r"<form class=\"act\".*?</form>", text, re.DOTALL) if button in one]
        self.address = re.search(r'action="([^"]*)"', self.html)[1]
        hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', self.html)
        self.fields = {name: unescape(value) for name, value in hidden}

    def send(self, why="month end", headers=None, **changes):
        """Post it as a browser does."""
        fields = self.fields | {"why": why} | changes
        sent = {"Host": HOST, "Origin": ORIGIN, "Sec-Fetch-Site": "same-origin"} if headers is None else headers
        return self.visitor.client.post(self.address, data=fields, headers=sent)


@pytest.fixture
def gate(house, request):
    """A gate of this test's own that holds two entries."""
    name = f"gate-{abs(hash(request.node.name))}"
    hold(house.stores, name, 2)
    return name


def acts(house, about):
    """Return the acts in the audit, the oldest first."""
    found = house.stores.audit.newest(f"{house.clock.now():%Y-%m}", 100, about=about)
    return [(one.act.who, one.act.what, one.act.why, one.act.result) for one in reversed(found)]


def test_a_gate_is_opened_and_closed_and_the_audit_says_by_whom(house, visitor, gate):
    """The reply leads to the page that shows the effect."""
    opened = Form(visitor, f"/gate/{gate}", f"Open {gate}").send()
    assert (opened.status_code, opened.headers["Location"]) == (303, f"{visitor.folder}/gate/{gate}")
    assert house.stores.gates.read(gate).is_open
    house.clock.advance(1)
    closed = Form(visitor, f"/gate/{gate}", f"Close {gate}").send("it is over")
    assert closed.status_code == 303
    state = house.stores.gates.read(gate)
    assert (state.is_open, state.epoch, state.opened_by, state.why) == (False, 1, "dana", "month end")
    assert acts(house, gate) == [
        ("dana", "gate open", "month end", "done: epoch 1, open"),
        ("dana", "gate close", "it is over", "done: epoch 1, closed"),
    ]


def test_once_closes_again(house, visitor, gate):
    """The box of the form is heard."""
    Form(visitor, f"/gate/{gate}", f"Open {gate}").send(once="yes")
    assert house.stores.gates.read(gate).once


def test_an_opening_is_planned_and_planned_anew(house, visitor, gate):
    """At a time in UTC, once, as the person saw the gate with its plan."""
    form = Form(visitor, f"/gate/{gate}", f"Plan an opening of {gate}")
    assert form.send(opens="2026-11-30T23:59", once="yes").status_code == 303
    planned = house.stores.gates.read(gate).scheduled
    assert (planned.at, planned.once, planned.by) == (datetime(2026, 11, 30, 23, 59, tzinfo=UTC), True, "dana")
    assert form.send(opens="2026-12-01T00:00").status_code == 409
    again = Form(visitor, f"/gate/{gate}", f"Plan an opening of {gate}")
    assert "in place of any opening planned before" in again.html
    house.stores.gate_operator.schedule(gate, datetime(2027, 1, 1, tzinfo=UTC), by="kim")
    refused = again.send(opens="2026-12-02T00:00")
    assert (refused.status_code, "to open at 2027-01-01 00:00:00 UTC" in refused.text) == (409, True)
    assert house.stores.gates.read(gate).scheduled.by == "kim"
    assert [what for _, what, _, _ in acts(house, gate)].count("gate open") == 2


@pytest.mark.parametrize(
    ("opens", "told"),
    [
        ("", (400, "is no time such as")),
        ("soon", (400, "is no time such as")),
        ("2026-11-20T12:00", (409, "that is in the past")),
        ("2062-11-20T12:00", (409, "check the year")),
    ],
)
def test_a_time_that_cannot_be_meant_plans_nothing(house, visitor, gate, opens, told):
    """Each is told, and the form is there again."""
    status, said = told
    reply = Form(visitor, f"/gate/{gate}", f"Plan an opening of {gate}").send(opens=opens)
    assert (reply.status_code, said in reply.text, f"Plan an opening of {gate}" in reply.text) == (status, True, True)
    assert house.stores.gates.read(gate).scheduled is None
    assert acts(house, gate) == []


def test_what_the_person_saw_must_still_be_so(house, visitor, gate):
    """Two held, now three: nothing is done, and the page asks again with the new number."""
    form = Form(visitor, f"/gate/{gate}", f"Open {gate}")
    hold(house.stores, gate, 3)
    refused = form.send()
    assert refused.status_code == 409
    assert "with 2 held; now it is closed at epoch 0 with 3 held" in refused.text
    assert "This starts the 3 entries" in refused.text
    assert not house.stores.gates.read(gate).is_open
    assert acts(house, gate) == []


def test_eight_posts_of_one_form_are_one_act(house, visitor, gate):
    """A double click, or a reload of the answer: the first one's result is said."""
    form = Form(visitor, f"/gate/{gate}", f"Open {gate}")
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: form.send(), range(8)))
    assert sorted(reply.status_code for reply in replies) == [303] + [409] * 7
    assert house.stores.gates.read(gate).epoch == 1
    assert len(acts(house, gate)) == 1
    again = form.send()
    assert "was sent before, so it was not done again; its result: done: epoch 1, open" in again.text.replace(
        "&#39;", "'"
    )


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": HOST},
        {"Host": HOST, "Origin": "null"},
        {"Host": HOST, "Origin": "http://127.0.0.1:8766"},
        {"Host": HOST, "Origin": "https://127.0.0.1:8765"},
        {"Host": HOST, "Origin": "http://localhost:8765"},
        {"Host": HOST, "Origin": ORIGIN, "Sec-Fetch-Site": "same-site"},
        {"Host": HOST, "Origin": ORIGIN, "Sec-Fetch-Site": "cross-site"},
    ],
    ids=lambda headers: " ".join(list(headers.values())[1:]) or "none",
)
def test_another_page_cannot_act(house, visitor, gate, headers):
    """Another server of this machine is another origin, though its forms carry the cookie."""
    form = Form(visitor, f"/gate/{gate}", f"Open {gate}")
    assert form.send(headers=headers).status_code == 403
    assert (house.stores.gates.read(gate).epoch, acts(house, gate)) == (0, [])


@pytest.mark.parametrize("name", ["at", "nonce", "seen", "token"])
def test_a_form_cannot_be_changed(house, visitor, gate, name):
    """Each field is bound by the token; so is the path."""
    form = Form(visitor, f"/gate/{gate}", f"Open {gate}")
    assert form.send(**{name: "2" + form.fields[name][1:-1] + "x"}).status_code == 403
    assert form.send(**{name: ""}).status_code == 403
    form.address = form.address.replace("/open", "/close")
    assert form.send().status_code == 403
    assert (house.stores.gates.read(gate).epoch, acts(house, gate)) == (0, [])


@pytest.mark.parametrize("why", ["", "   ", "x" * 501])
def test_an_act_needs_a_reason(house, visitor, gate, why):
    """The browser asks for one; the server does too."""
    form = Form(visitor, f"/gate/{gate}", f"Open {gate}")
    assert "required" in form.html
    assert form.send(why).status_code == 400
    assert (house.stores.gates.read(gate).epoch, acts(house, gate)) == (0, [])


def test_a_form_is_good_for_twelve_hours(house, visitor, gate):
    """A tab that was left open over night shows numbers of yesterday."""
    form = Form(visitor, f"/gate/{gate}", f"Open {gate}")
    house.clock.advance(12 * 3600 + 1)
    reply = form.send()
    house.clock.advance(-12 * 3600 - 1)
    assert (reply.status_code, "twelve hours" in reply.text) == (403, True)
    assert house.stores.gates.read(gate).epoch == 0


def test_another_person_or_session_cannot_send_a_form(house, visitor, gate):
    """Without the cookie there is no page; another console has another key."""
    form = Form(visitor, f"/gate/{gate}", f"Open {gate}")
    visitor.client.delete_cookie("sluice", domain="127.0.0.1", path=f"{visitor.folder}/")
    assert form.send().status_code == 403
    assert house.stores.gates.read(gate).epoch == 0


def test_a_reader_has_no_forms_and_cannot_post(house, visitor, gate):
    """With --read-only."""
    form = Form(visitor, f"/gate/{gate}", f"Open {gate}")
    house.login._may_act = False
    assert '<form class="act"' not in visitor.get(f"/gate/{gate}").text
    assert form.send().status_code == 403
    assert house.stores.gates.read(gate).epoch == 0


def test_a_paused_job_is_resumed_as_it_was_seen(house, visitor):
    """One that changed since is asked about again."""
    job = put_job(house.stores, make_job("stopped", chunks=10, done=5, parked=2, state=JobState.PAUSED))
    form = Form(visitor, "/job/stopped", "Resume stopped")
    changed = house.stores.ledger.commit(job)
    assert changed is not None
    refused = form.send()
    assert (refused.status_code, "was changed since you saw it" in refused.text) == (409, True)
    assert house.stores.ledger.read("stopped").state is JobState.PAUSED
    house.clock.advance(1)
    assert Form(visitor, "/job/stopped", "Resume stopped").send("mended").status_code == 303
    assert house.stores.ledger.read("stopped").state is not JobState.PAUSED
    assert [one[1:] for one in acts(house, "stopped")] == [
        ("job resume", "month end", "failed: ActStaleError"),
        ("job resume", "mended", "running"),
    ]
    assert "Resume stopped" not in visitor.get("/job/stopped").text


def test_a_job_is_paused_as_it_was_seen(house, visitor):
    """The page says what it does; a second post does nothing."""
    job = put_job(house.stores, make_job("long", chunks=10, done=5, state=JobState.RUNNING))
    form = Form(visitor, "/job/long", "Pause long")
    assert "5 of 10 have ended" in visitor.get("/job/long").text
    changed = house.stores.ledger.commit(job)
    assert changed is not None
    refused = form.send()
    assert (refused.status_code, "was changed since you saw it" in refused.text) == (409, True)
    assert Form(visitor, "/job/long", "Pause long").send("wrong tariff").status_code == 303
    found = house.stores.ledger.read("long")
    assert (found.state, found.by, found.problem) == (JobState.PAUSED, "dana", "wrong tariff")
    assert house.stores.fleet.read().halts["long"] == 1
    assert [one[1:] for one in acts(house, "long")] == [("job pause", "wrong tariff", "paused")]
    assert "Resume long" in visitor.get("/job/long").text
    house.clock.advance(1)
    assert Form(visitor, "/job/long", "Stop long").send("wrong file").status_code == 303
    assert house.stores.ledger.read("long").state is JobState.STOPPED
    page = visitor.get("/job/long").text
    assert ("not run" in page, page.count('<form class="act"'), "Run long again" in page) == (True, 2, True)


def test_a_job_that_has_ended_runs_again_as_it_was_seen(house, visitor):
    """The page says what that does. Of a job that runs, and of one that is buried, there is no such form."""
    job = put_job(house.stores, make_job("ended", chunks=10, done=10, state=JobState.COMPLETE))
    form = Form(visitor, "/job/ended", "Run ended again")
    page, requests = house.count(lambda: visitor.get("/job/ended"))
    assert re.search(
        r"1 job, with the deployed code: 10 chunks with [\d,]+ transactions: no speed is known with", page.text
    )
    look, without = house.count(lambda: visitor.look_again("/job/ended", page))
    # The fleet was read by the page before.
    assert (look.status_code, requests - without) == (304, 1)
    changed = house.stores.ledger.commit(job)
    assert changed is not None
    refused = form.send()
    assert (refused.status_code, "was changed since you saw it" in refused.text) == (409, True)
    form = Form(visitor, "/job/ended", "Run ended again")
    assert form.send("tariff corrected").status_code == 303
    found = house.stores.ledger.read("ended")
    assert (found.state, found.revision, found.run_from, found.done) == (JobState.DISPATCHING, 2, 2, 0)
    assert (form.send("tariff corrected").status_code, house.stores.ledger.read("ended").revision) == (409, 2)
    assert [one[1:] for one in acts(house, "ended")] == [("job rerun", "tariff corrected", "revision 2, dispatching")]
    assert "Run ended again" not in visitor.get("/job/ended").text
    put_job(house.stores, make_job("buried", state=JobState.BURIED))
    assert "Run buried again" not in visitor.get("/job/buried").text


def test_a_job_is_erased_whose_id_is_typed(house, visitor):
    """Another id does nothing. The page then has the proof, and no form."""
    put_job(house.stores, make_job("gone", chunks=2, done=2, state=JobState.COMPLETE))
    form = Form(visitor, "/job/gone", "Erase gone")
    assert form.send("request 4711", typed="other").status_code == 400
    assert house.stores.ledger.read("gone").state is JobState.COMPLETE
    assert form.send("request 4711", typed="gone").status_code == 303
    found = house.stores.ledger.read("gone")
    assert (found.state, found.by, found.problem) == (JobState.ERASED, "dana", "request 4711")
    assert [one[1:] for one in acts(house, "gone")] == [("job erase", "request 4711", "erased")]
    page = visitor.get("/job/gone").text
    assert ("by dana; proof follows" in page, '<form class="act"' in page) == (True, False)


def test_a_cause_is_discarded_as_it_was_seen(house, visitor):
    """One entry more is asked about again; then all of them are closed with the reason, once."""
    for chunk in range(3):
        park(house.stores, make_entry("gone", chunk, fingerprint="gone-cause"))
    form = Form(visitor, "/parked/gone-cause", "Discard them")
    park(house.stores, make_entry("gone", 3, fingerprint="gone-cause"))
    house.clock.advance(60)
    refused = form.send("tests")
    assert (refused.status_code, "has changed since you saw it" in refused.text) == (409, True)
    assert "Discard 4 entries" in refused.text
    last = Form(visitor, "/parked/gone-cause", "Discard them")
    assert last.send("tests").status_code == 303
    again = last.send("tests")
    assert (again.status_code, "4 of 4 discarded" in again.text) == (409, True)
    notes = {one.note for one in house.stores.parked_table.entries("gone", closed=True)}
    assert notes == {"dana: tests"}


def test_the_row_of_an_act_is_written_once_also_when_its_reply_is_lost(house, gate, monkeypatch):
    """The attempt in it says whose it is."""
    from azure.core.exceptions import ServiceResponseError  # noqa: PLC0415

    from shared.operating import ActKey, AuditedAct  # noqa: PLC0415

    table = house.stores.audit._table
    create = table.create_entity

    def lose(entity):
        create(entity)
        raise ServiceResponseError("lost")

    monkeypatch.setattr(table, "create_entity", lose)
    named = ActKey(house.clock.now() - timedelta(seconds=5), "nonce")
    with house.stores.audit.record(AuditedAct("dana", "try", gate, "x"), named) as command:
        command.result = "done"
    assert acts(house, gate) == [("dana", "try", "x", "done")]
