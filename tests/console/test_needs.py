"""Now with many jobs: its first lines are those that need a person, however many others have just ended."""

import re
from dataclasses import replace
from datetime import timedelta
from functools import partial
from html import unescape
from types import SimpleNamespace

import pytest

from shared.azure import write_group
from shared.ledger import JobState
from shared.ledger.table_ledger import JobList
from shared.pending import JOB_POINTER, REPLAY_POINTER, Pointer
from shared.watch import Need, NeedKind
from tests.console.conftest import HOST, Installation
from tests.console.fillings import NOON, decide, make_entry, make_job, park, put_job
from tests.console.test_acts import ORIGIN
from tests.console.test_pages import words
from tools.local.paths import ROOT

#: Jobs that are listed, and those of them that ended within ten minutes, so that their pointers still stand.
LISTED, ENDED = 1000, 300
GROUP = 100
#: Requests before the needs had rows of their own, counted with this same filling.
BEFORE = {"first": 59, "look": 56}


@pytest.fixture(scope="module", autouse=True)
def filled(own_memory):
    """Many jobs, a paused one among them, and one behind a closed gate whose deadline has passed."""
    made = Installation(own_memory.connection_string, own_memory)
    with made.connections:
        stores, lines = made.stores, []
        listing = JobList(SimpleNamespace(upsert_entity=lambda entity, mode: lines.append(entity)), None)
        over = {"state": JobState.COMPLETE, "done": 1, "finished_at": NOON, "listed_at": NOON}
        for number in range(LISTED):
            name, accepted_at = f"job-{number:04}", NOON - timedelta(seconds=number)
            listing.tell(make_job(name, chunks=1, accepted_at=accepted_at, **over))
            if number < ENDED:
                stores.pending.add(Pointer(JOB_POINTER, NOON + timedelta(minutes=4), name))
        table = stores.connections.tables.get_table_client("jobindex")
        for first in range(0, LISTED, GROUP):
            write_group(table, [("upsert", line) for line in lines[first : first + GROUP]])
        missed = {"deadline": NOON - timedelta(minutes=1), "state": JobState.HELD, "gate": "nightly"}
        put_job(stores, make_job("zz-late", **missed), is_open=False)
        put_job(stores, make_job("zz-paused", chunks=40, done=4, parked=30, state=JobState.PAUSED))
        park(stores, make_entry("zz-paused", 3))
        decide(stores)


def lines_of(reply):
    """Return the lines of what needs a person, each as its kind and words."""
    found = re.findall(r"<li class=\"(\w+)\">(.*?)</li>", reply.text, re.DOTALL)
    return [(grave, re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", line)).strip()) for grave, line in found]


def test_the_first_lines_are_those_that_need_a_person(visitor):
    """The paused job and the late one, each with its reason, the way out and its page; then what only waits."""
    reply = visitor.get("/")
    paused, late, parked = lines_of(reply)
    assert paused[0] == late[0] == "bad"
    assert paused[1].startswith("job paused zz-paused: 30 of 40 chunks are parked, since 2026-11-21 12:00:00 UTC ")
    assert "find the cause, mend it, then resume the job" in paused[1]
    assert late[1].startswith(
        "job late zz-late: its deadline has passed, 2026-11-21 11:59 UTC, held behind gate nightly, since 2026-11-21 11:59"
    )
    assert parked == (
        "warn",
        "parked 1 in 1 cause each cause says what to do: sluice parked list",
    )
    for page in ("/job/zz-paused", "/job/zz-late", "/parked"):
        assert f'<a href="{visitor.folder}{page}"><strong>' in reply.text


def test_a_visit_and_a_look_cost_what_the_page_says(visitor, house):
    """Jobs that have ended are known by the list. Queues and processes are read on demand."""
    shown, first = house.count(lambda: visitor.get("/"))
    house.clock.advance(5)
    _, look = house.count(lambda: visitor.look_again("/", shown))
    needs, jobs, causes = 1, 1, 1
    assert (first, look) == (needs + jobs + causes, needs)
    page = " ".join((ROOT / "docs" / "console.md").read_text(encoding="utf-8").split())
    stated = f"a first visit of Now makes {first} requests (0.4.0: {BEFORE['first']}) and the next reading {look} ({BEFORE['look']})"
    assert f"With 1,000 jobs of which 300 have just ended, {stated}" in page


def test_a_need_that_begins_is_seen_by_an_idle_page(own_memory):
    """Nothing moves, so a look makes one request: the needs and the fleet in turn."""
    house = Installation(own_memory.connection_string, own_memory)
    with house.connections:
        for pointer in house.stores.pending.due(NOON + timedelta(hours=1)):
            house.stores.pending.remove(pointer)
        house.clock.advance(3600)
        visitor = house.visitor()
        shown = visitor.get("/")
        house.stores.watch.begin(Need(NeedKind.UNBALANCED, "uneven", "2 went in, 3 came out", NOON))
        house.clock.advance(60)
        seen, requests = house.count(lambda: visitor.look_again("/", shown))
        assert (seen.status_code, requests) == (200, 1)
        assert [line[:10] for _, line in lines_of(seen)] == ["job paused", "job unbala", "job late z", "parked 1 i"]
        house.stores.watch.end(NeedKind.UNBALANCED, "uneven", NOON)


def test_more_needs_than_a_page_has_are_one_line_for_each_kind(visitor, house):
    """And a need of a later version is shown with its own words."""
    watch = house.stores.watch
    begun = [Need(NeedKind.PAUSED, f"job-{number:04}", "x", NOON) for number in range(200)]
    begun.append(Need("a-order-stuck", "order-1", "it waits for its payment", NOON, is_grave=False))
    for need in begun:
        watch.begin(need)
    shown = lines_of(visitor.get("/"))
    paused = [line for _, line in shown if line.startswith("job paused")]
    assert len(paused) == 11
    assert "there are at least 199, of which 10 are shown" in paused[-1]
    assert [line.split(":")[0] for _, line in shown if "job late" in line] == ["job late zz-late"]
    assert any(line.startswith("order stuck order-1: it waits for its payment") for _, line in shown)
    for need in begun:
        watch.end(need.kind, need.about, NOON)


def test_without_a_point_of_the_last_day_a_job_that_runs_tells_that_the_tick_is_silent(visitor, house):
    """A replay that runs does not: its pointer is due all the time."""
    pointer = house.stores.pending.add(Pointer(REPLAY_POINTER, NOON - timedelta(minutes=20), "r1"))
    assert "tick silent" not in words(visitor.get("/"))
    house.stores.pending.remove(pointer)
    job = put_job(house.stores, make_job("running", chunks=40, done=4))
    house.clock.advance(10)
    assert "tick silent" in words(visitor.get("/"))
    house.stores.ledger.commit(replace(job, state=JobState.COMPLETE, finished_at=NOON))


def send(visitor, address, **changes):
    """Send the form of a page, as a browser does."""
    page = visitor.get(address).text
    hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page)
    action = re.search(r'action="([^"]*/done)"', page)[1]
    sent = {"Host": HOST, "Origin": ORIGIN, "Sec-Fetch-Site": "same-origin"}
    fields = {name: unescape(value) for name, value in hidden} | {"why": "the bank knows"} | changes
    return partial(visitor.client.post, action, data=fields, headers=sent)


def test_a_person_who_is_done_takes_it_off_the_list(visitor, house):
    """From its line on Now: audited, once, and only as it was seen. A tick that finds it again puts it back."""
    watch = house.stores.watch
    need = Need(NeedKind.REPLAY_STOPPED, "31464e0c", "replay r1 stopped after 1 of 460", NOON, is_grave=False)
    watch.begin(need)
    line = next(one for one in re.findall(r"<li class.*?</li>", visitor.get("/").text, re.DOTALL) if "31464e0c" in one)
    address = re.search(r'href="([^"]*)">done with it', line)[1].removeprefix(visitor.folder)
    assert "replay r1 stopped after 1 of 460" in words(visitor.get(address))
    stale = send(visitor, address)
    watch.begin(replace(need, found="replay r2 stopped after 9 of 9"))
    assert stale().status_code == 409
    done = send(visitor, address)
    assert (done().status_code, watch.find(need.kind, need.about)) == (303, None)
    assert done().status_code == 409
    (act,) = house.stores.audit.newest(f"{NOON:%Y-%m}", 9, about="31464e0c")
    assert (act.act.what, act.act.why, act.act.result) == ("need done", "the bank knows", "taken off the list")
    gone = visitor.get(address)
    assert (gone.status_code, "does not need a person any more" in gone.text) == (404, True)
