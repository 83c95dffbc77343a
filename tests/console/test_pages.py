"""What the pages show of an installation in which much goes wrong."""

import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest
from msgspec.structs import replace

from shared.app import TRANSACTION_IDS
from shared.gate import TimetableRow
from shared.ids import RangeGenerator
from shared.ledger import JobState
from shared.parked import DOOR
from shared.pipeline.outputs import Outputs, PartWriter
from shared.watch import Need, NeedKind
from tests.console.fillings import NOON, decide, hold, make_entry, make_job, park, put_job, put_messages
from tools.local.paths import ROOT


@pytest.fixture(scope="module", autouse=True)
def filled(own_memory):
    """An installation with everything that a page can show."""
    from tests.console.conftest import Installation  # noqa: PLC0415 - only here without a test's own

    made = Installation(own_memory.connection_string, own_memory)
    stores = made.stores
    with made.connections:
        late = {"deadline": NOON + timedelta(minutes=4), "gate": "nightly"}
        put_job(stores, make_job("usage-0412", chunks=1200, done=311, parked=1, **late))
        put_job(stores, make_job("invoices-11", chunks=40, done=22, parked=6, state=JobState.PAUSED))
        ended = {"state": JobState.COMPLETE, "finished_at": NOON}
        put_job(stores, make_job("usage-0411", chunks=5, done=5, **ended), is_open=False)
        hold(stores, "nihgtly", 3)
        stores.watch.begin(Need(NeedKind.GATE_HOLDS, "nihgtly", "it holds work since noon", NOON, is_grave=False))
        stores.gate_operator.open("nightly", by="dana", why="month end")
        stores.gate_operator.close("nightly", by="kim", why="it is over")
        decide(stores)
        for chunk in range(60):
            park(stores, make_entry("usage-0412", chunk))
        park(stores, make_entry("invoices-11", 3, fingerprint="77aa77aa77aa77aa77", reason="killed_its_worker"))
        put_messages(made.connections, "work-00", 3)


def words(reply):
    """Return the text of a page as a person reads it."""
    assert reply.status_code == 200, reply.text
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", reply.text))


def test_now_says_what_needs_a_person(visitor):
    """Each alert with what was found, its remedy and the page that helps."""
    reply = visitor.get("/")
    shown = words(reply)
    for part in (
        "job late usage-0412: at its rate it ends after its deadline, 2026-11-21 12:04 UTC",
        "job paused invoices-11: 6 of 40 chunks are parked",
        "gate holds nihgtly: it holds work since noon",
        "parked 61 in 2 causes",
    ):
        assert part in shown
    for page in ("/job/usage-0412", "/job/invoices-11", "/gate/nihgtly", "/parked"):
        assert f'href="{visitor.folder}{page}"' in reply.text


def test_now_says_what_is_decided_and_why(visitor):
    """Every term, the one that decides, the processes and the queues."""
    assert "No tick of the last hours has recorded anything." in words(visitor.get("/"))
    shown = words(visitor.get("/?look=yes"))
    assert "6 tasks" in shown
    assert "work waits, nothing pushes back" in shown
    assert re.search(r"rules 32 .*share 8 .*storage . .*downstream 6 +decides", shown)
    assert "a1b2c3d4 4 1,204 0.82 100 %" in shown
    assert re.search(r"work-00 3 2026-", shown)


def test_the_jobs_are_listed_and_found_by_the_beginning_of_their_id(visitor):
    """The newest first; a search that finds nothing says so."""
    shown = words(visitor.get("/jobs"))
    assert re.search(r"usage-0411 .*complete", shown)
    found = words(visitor.get("/jobs?id=inv"))
    assert "invoices-11" in found
    assert "usage-0411" not in found
    assert "no jobs begin with nothing-such" in words(visitor.get("/jobs?id=nothing-such"))


def test_a_job_says_how_far_it_is_and_why_not_further(visitor):
    """Its declared sum is what was accepted, rejected, parked and is open."""
    shown = words(visitor.get("/job/invoices-11"))
    assert "it is paused" in shown
    assert re.search(r"accepted 22,000 275.0 rejected 0 . parked 6,000 75.0 open 12,000 . declared 40,000 500.0", shown)
    text = visitor.get("/job/invoices-11").text
    assert (text.count('<rect class="stopped" x'), text.count('class="done" x')) == (7, 22)


def test_many_chunks_are_drawn_in_few_cells_and_only_if_a_person_wants_them(visitor, house):
    """A cell shows the worst of its range."""
    _, plain = house.count(lambda: visitor.get("/job/usage-0412"))
    reply, wanted = house.count(lambda: visitor.get("/job/usage-0412?chunks=all"))
    assert wanted == plain + 1
    cells = re.findall(r'<rect class="(\w+)" x="\d+" y="\d+" width="9"', reply.text)
    assert (len(cells), cells.count("done"), cells.count("stopped")) == (400, 103, 1)


def test_the_outputs_of_a_job_are_files(visitor, house):
    """Stored by the browser and never shown. Their requests are on the bill of the console."""
    assert "/file/" not in visitor.get("/job/usage-0412").text
    for kind in ("output", "rejected"):
        with_lines = PartWriter(Outputs(house.stores.container("outputs"), "usage-0411", 1), kind)
        with_lines.write({"=1+1": "<script>"})
        with_lines.close()
    assert 'href="' + visitor.folder + '/job/usage-0411/file/rejected"' in visitor.get("/job/usage-0411").text
    reply, requests = house.count(lambda: visitor.get("/job/usage-0411/file/output"))
    assert (reply.data, reply.mimetype) == (b'{"=1+1":"<script>"}\n', "application/x-ndjson")
    assert reply.headers["Content-Disposition"] == "attachment; filename=usage-0411-output.ndjson"
    assert requests == 3
    shown = re.search(r"all pages since this console started: (\d+)", words(visitor.get("/ids")))[1]
    assert int(shown) >= requests
    assert visitor.get("/job/usage-0411/file/totals").data == b""
    for path in ("/job/usage-0411/file/plan", "/job/usage-0412/file/output", "/job/none/file/output"):
        assert visitor.get(path).status_code == 404


def test_a_job_that_is_not_there_is_said_with_the_page_that_lists_them(visitor):
    """No page is made of it."""
    reply = visitor.get("/job/no-such-job")
    assert (reply.status_code, "the page Jobs lists the last ones" in reply.text) == (404, True)


def test_the_gates_and_one_with_its_history(visitor):
    """By whom and why it was opened."""
    assert re.search(r"nightly closed 1 0 .*by dana", words(visitor.get("/gates")))
    shown = words(visitor.get("/gate/nightly"))
    assert "last opened 2026-11-21 12:00:00 UTC by dana: month end" in shown
    assert "kim it is over" in shown
    assert "perhaps a submission misspells" in words(visitor.get("/gate/nihgtly"))


def test_a_gate_says_its_timetable(visitor, house):
    """In words, with who set it and how it ends, beside the opening that is planned; a faulty one with its fault."""
    row = TimetableRow(
        line="0 2 * * mon-fri", zone="Europe/Berlin", minutes=10, by="dana", why="night", set_at=house.clock.now()
    )
    timetabler = house.stores.build_timetabler(None)
    timetabler.set("clocked", row)
    shown = words(visitor.get("/gate/clocked"))
    assert "It opens at 2026-11-23 01:00:00 UTC , once, planned by timetable of dana: night." in shown
    assert "Timetable: at 02:00 on Monday to Friday, Europe/Berlin, each time once, set by dana: night." in shown
    house.stores.timetables.put("clocked", replace(row, zone="Mars/Olympus"), lambda: None)
    assert "no opening is planned: there is no time zone" in words(visitor.get("/gate/clocked"))
    timetabler.end("clocked", by="dana", why="over")
    assert "Timetable" not in words(visitor.get("/gate/clocked"))


def test_the_causes_and_the_entries_of_one(visitor):
    """The most frequent first, with the remedy; fifty entries on a page."""
    shown = words(visitor.get("/parked"))
    assert shown.index("failed:ValueError") < shown.index("killed_its_worker")
    assert re.search(r"3146415e4c0f77aa90 .* 60 .* usage-0412", shown)
    assert "ValueError: no rate for CHF" in shown
    reply = visitor.get("/parked/3146415e4c0f77aa90")
    assert reply.text.count("/parked/usage-0412/chunk-") == 50
    rest = re.search(r'href="([^"]*)" rel="next"', reply.text)[1].removeprefix(visitor.folder)
    assert visitor.get(rest).text.count("/parked/usage-0412/chunk-") == 10
    assert "1 parked in 1 cause. fingerprint" in words(visitor.get("/parked?job=invoices-11"))


def test_an_entry_has_everything_but_its_bytes(visitor):
    """Who reads a page has not read the payload."""
    shown = words(visitor.get("/parked/usage-0412/chunk-000000007-1"))
    for part in ("ValueError: no rate for CHF", "invoices.py:29 map", "7 of revision 1, from transaction 7,000"):
        assert part in shown
    assert "usage-0412 7 " not in shown
    assert visitor.get("/parked/usage-0412/no-such").status_code == 404


def test_every_page_says_what_it_has_cost(visitor, house):
    """As the meter counts it."""
    for path in (
        "/",
        "/jobs",
        "/gates",
        "/parked",
        "/job/usage-0411",
        "/gate/nightly",
        "/audit",
        "/rules",
        "/cost",
        "/ids",
    ):
        house.clock.advance(100)
        reply, requests = house.count(lambda path=path: visitor.get(path))
        found = re.search(r"This page cost ([\d,]+) storage", reply.text)[1]
        assert (path, int(found)) == (path, requests)


def test_a_page_that_shows_the_same_is_not_sent_again(visitor, house):
    """Its moving part alone is compared, not the time or the cost."""
    for path in ("/gates", "/gate/nightly", "/parked"):
        shown = visitor.get(path)
        house.clock.advance(30)
        again = visitor.look_again(path, shown)
        assert (path, again.status_code, again.text) == (path, 304, "")
    hold(house.stores, "other", 1)
    shown = visitor.get("/gates")
    hold(house.stores, "another", 1)
    house.clock.advance(30)
    changed = visitor.look_again("/gates", shown)
    assert (changed.status_code, "another" in changed.text, "<nav" in changed.text) == (200, True, False)


def test_the_audit_says_who_did_what_and_why(visitor):
    """The newest first; a search narrows it."""
    shown = words(visitor.get("/audit?month=2026-11"))
    assert re.search(r"kim gate close nightly it is over done: epoch 1, closed", shown)
    assert "kim" not in words(visitor.get("/audit?month=2026-11&who=dana"))
    assert "No such act was recorded in 2026-10" in words(visitor.get("/audit?month=2026-10"))
    assert visitor.get("/audit?month=yesterday").status_code == 400


def test_the_rules_in_force_and_the_last_decisions(visitor, house):
    """The text as it was put, and each decision with its reason."""
    assert "The built-in rules" in words(visitor.get("/rules"))
    text = (ROOT / "docs" / "rules.sample.yaml").read_text()
    house.stores.rules.put(text)
    reply = visitor.get("/rules")
    shown = re.findall(r"<li><code>(.*?)</code></li>", re.search(r'<ol class="code".*?</ol>', reply.text, re.DOTALL)[0])
    assert [unescape(line) for line in shown] == text.splitlines()
    assert "6 downstream work waits, nothing pushes back 312 built in" in words(reply)


def test_a_day_costs_what_the_processes_noted(visitor, house):
    """And says until when they did."""
    assert "No process has noted anything on this day yet" in words(visitor.get("/cost?day=2026-11-01"))
    diary = house.stores.diary
    visitor.get("/gates")
    diary.note()
    shown = words(visitor.get("/cost"))
    assert "Counted until 2026-11-21 12:00:00 UTC , by 1 process" in shown
    assert re.search(r"gates blob useful \d+ 0\.0000", shown)
    assert visitor.get("/cost?day=1").status_code == 400


def test_a_number_has_a_story(visitor, house):
    """By whom it was drawn."""
    assert "No number was ever drawn" in words(visitor.get("/ids?number=7"))
    with house.stores.ids as ids:
        (first, *_) = ids.next_ids(3)
    shown = words(visitor.get(f"/ids?number={first}"))
    assert f"{first} was reserved by" in shown
    assert visitor.get("/ids?number=-1").status_code == 400
    assert visitor.get("/ids?number=%C2%B2").status_code == 400


def test_a_later_submission_that_was_refused_is_on_both_pages_of_its_job(visitor, house):
    """Its job is complete, with the former content. An old state of an open one says when it was seen."""
    put_job(house.stores, make_job("reused", chunks=2, done=2, state=JobState.COMPLETE), is_open=False)
    park(house.stores, make_entry(DOOR, 1, key="accept-reused", reason="conflict", claimed="reused"))
    house.clock.advance(120)
    row = re.search(
        r"<th scope=\"row\"><a [^>]+>reused</a></th>\s*<td[^>]*>(.*?)</td>", visitor.get("/jobs?id=reused").text
    )[1]
    assert "another refused" in row
    assert "another refused" not in visitor.get("/jobs?id=usage-0411").text
    shown = words(visitor.get("/job/reused"))
    assert "a later submission with other content was refused at" in shown
    assert "/parked/~door/accept-reused" in unescape(visitor.get("/job/reused").text).replace("%7E", "~")
    assert re.search(r"usage-0412 running seen ", words(visitor.get("/jobs")))


def test_the_number_of_a_transaction_leads_to_its_job(visitor, house):
    """By the list of jobs."""
    with RangeGenerator(house.stores.sequence(TRANSACTION_IDS), prefetch=False) as ids:
        first = ids.next_ids(2_000).start
    job = make_job("numbered", chunks=2, done=2, state=JobState.COMPLETE, id_base=first, accepted_at=datetime.now(UTC))
    put_job(house.stores, job, is_open=False)
    text = visitor.get(f"/ids?number={first + 5}").text
    assert re.search(rf'{first + 5} belongs to job <a href="[^"]*/job/numbered">numbered</a>', text)


def test_a_cause_above_the_bound_at_the_door_says_how_its_messages_come_back(visitor, house):
    """Also when none of its entries is left. Its page makes as many requests as another cause's."""
    refused = make_entry(DOOR, 1, key="accept-above", fingerprint="99aa99aa99aa99aa99", reason="unreadable")
    house.stores.overflow.keep(refused, b"no submission")
    visitor.get("/parked")
    shown = words(visitor.get("/parked/99aa99aa99aa99aa99"))
    assert "1 more message is in 1 file, above the bound at the door" in shown
    assert "sluice parked readmit 99aa99aa99aa99aa99" in shown
    assert "Discard" not in shown
    park(house.stores, refused)
    house.clock.advance(10)
    visitor.get("/parked")
    shown = words(visitor.get("/parked/99aa99aa99aa99aa99"))
    assert "accept-above" in shown
    assert "1 more message is in 1 file" in shown
    house.clock.advance(10)
    _, requests = house.count(lambda: visitor.get("/parked/99aa99aa99aa99aa99"))
    # The entries that changed, and the files of causes at the door.
    assert requests == 2
