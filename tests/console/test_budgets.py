"""What pages cost: nothing while nobody looks, little while somebody does. Counted by the meter."""

import html
import re
from dataclasses import replace
from functools import partial
from threading import Barrier, Thread

import pytest

from capabilities.console.snapshot import MOST_ROWS, Part
from shared.ledger import JobState
from tests.console.conftest import HOST
from tests.console.fillings import NOON, decide, hold, make_entry, make_job, park, put_job

#: What `console.js` does while nothing moves, for half an hour after the last key: it doubles from 5 s to a minute.
FIRST, LONGEST, PATIENCE = 5, 60, 1800


def test_an_idle_hour_of_now_is_at_most_sixty_requests(house, visitor):
    """The page as it was opened, and all its looks until it stops."""
    hold(house.stores, "quiet", 2)
    opened = house.requests
    shown = visitor.get("/")
    wait, passed, looks, costs = FIRST, 0, 0, []
    while passed + wait <= PATIENCE:
        house.clock.advance(wait)
        passed += wait
        again, requests = house.count(lambda: visitor.look_again("/", shown))
        assert (passed, again.status_code) == (passed, 304)
        costs.append(requests)
        wait, looks = min(LONGEST, wait * 2), looks + 1
    assert looks >= 29
    # Each sixth look reads the jobs that are under way too, and one in twenty minutes gates and parked entries.
    assert set(costs) <= {1, 2, 4, 5}
    assert costs.count(1) >= 0.75 * looks
    assert house.requests - opened <= 60


@pytest.mark.parametrize(("address", "costs"), [("/", [2, 2]), ("/?look=yes", [3, 6])])
def test_a_look_while_something_moves_takes_needs_and_open_jobs(house, visitor, address, costs):
    """One request for the needs, and one for the jobs under way. Who looks at parts: the fleet; each half minute queues."""
    decide(house.stores)
    mark = len(address)
    put_job(house.stores, make_job(f"moving-{mark}", chunks=10, done=3))
    shown = visitor.get(address)
    found = []
    for seconds in (5, 26):
        house.clock.advance(seconds)
        put_job(house.stores, make_job(f"another-{seconds}-{mark}", chunks=10, done=3), is_open=False)
        found.append(house.count(lambda: visitor.look_again(address, shown))[1])
    assert found == costs
    end_all(house)


def end_all(house):
    """End all jobs that are under way."""
    for one in house.stores.job_list.list_open()[0]:
        found = house.stores.ledger.read(one.job)
        house.stores.ledger.commit(replace(found, state=JobState.COMPLETE, finished_at=house.clock.now()))


def test_many_open_jobs_are_one_request(house, visitor):
    """They come from the list of jobs. One that has ended is shown no more."""
    decide(house.stores)
    names = [f"open-{number:02}" for number in range(MOST_ROWS + 5)]
    for name in names:
        put_job(house.stores, make_job(name, chunks=10, done=3))
    ended = house.stores.ledger.read(names[0])
    house.stores.ledger.commit(replace(ended, state=JobState.COMPLETE, done=10, finished_at=NOON))
    shown = visitor.get("/")
    assert [f"/job/{name}" in shown.text for name in names] == [False, *[True] * (len(names) - 1)]
    house.clock.advance(5)
    _, requests = house.count(lambda: visitor.look_again("/", shown))
    needs, listed = 1, 1
    assert requests == needs + listed
    running = house.stores.ledger.read(names[1])
    house.stores.ledger.commit(replace(running, state=JobState.FINISHING, done=10))
    house.clock.advance(5)
    # Long before its outputs are there.
    assert f"{names[1]}</a>" in (again := visitor.look_again("/", shown).text)
    assert ">finishing<" in again[again.index(f"/job/{names[1]}") :][:600]
    end_all(house)


def test_a_long_job_that_finishes_is_on_now_within_ten_seconds(house, visitor):
    """As the script looks while a job runs. Its row was read once meanwhile, because there was no news of it for two minutes."""
    running = put_job(house.stores, make_job("long", chunks=10, done=3))
    shown = visitor.get("/")
    longest, wait, costs = int(re.search(r'data-longest="(\d+)"', shown.text)[1]), FIRST, []
    assert longest == 10
    for _ in range(20):
        house.clock.advance(wait)
        again, requests = house.count(partial(visitor.look_again, "/", shown))
        shown, wait = (again, FIRST) if again.status_code == 200 else (shown, min(longest, wait * 2))
        costs.append(requests)
    assert (set(costs) <= {2, 3, 4}, wait <= longest) == (True, True)
    house.stores.ledger.commit(replace(running, state=JobState.FINISHING, done=10))
    told = house.clock.now()
    house.clock.advance(wait)
    again = visitor.look_again("/", shown).text
    row = again[again.index("/job/long") :][:900]
    assert ">finishing<" in row
    assert [one.as_of for one in house.stores.job_list.list_open()[0] if one.job == "long"] == [told]
    end_all(house)
    house.clock.advance(5)
    assert "data-longest" not in visitor.get("/").text


def test_a_job_that_a_slow_process_left_under_way_is_not_shown(house, visitor):
    """Its own row says that it has ended. That costs a request, once for each piece of news."""
    job = put_job(house.stores, make_job("left", chunks=10, done=3))
    house.stores.ledger.commit(replace(job, state=JobState.COMPLETE, done=10, finished_at=NOON))
    house.stores.job_list.tell(replace(job, listed_at=NOON))
    house.clock.advance(121)
    shown, first = house.count(lambda: visitor.get("/"))
    house.clock.advance(5)
    _, look = house.count(lambda: visitor.look_again("/", shown))
    assert ("/job/left" in shown.text, first, look) == (False, 4, 1)
    house.stores.job_list.tell(house.stores.ledger.read("left"))


def test_all_tabs_share_what_one_has_read(house, visitor):
    """A second browser that opens Now at once costs nothing."""
    visitor.get("/")
    other = house.visitor()
    _, requests = house.count(lambda: other.get("/"))
    assert requests == 0


def test_a_list_is_read_again_by_what_changed(house, visitor):
    """Two thousand parked entries are read once; then one request, and gates take two."""
    for chunk in range(5):
        park(house.stores, make_entry("usage", chunk))
    visitor.get("/parked")
    visitor.get("/gates")
    house.clock.advance(60)
    _, parked = house.count(lambda: visitor.get("/parked"))
    _, gates = house.count(lambda: visitor.get("/gates"))
    assert (parked, gates) == (1, 2)
    park(house.stores, make_entry("usage", 9))
    house.stores.gate_operator.open("new", by="dana")
    house.clock.advance(60)
    (reply, parked), (listed, gates) = (
        house.count(lambda path=path: visitor.get(path)) for path in ("/parked", "/gates")
    )
    assert (parked, gates) == (1, 3)
    assert 'data-label="entries">6</td>' in reply.text
    assert "/gate/new" in listed.text


def test_an_entry_that_is_done_leaves_the_list(house, visitor):
    """It is found by the time of its change."""
    park(house.stores, make_entry("leaves", 1, fingerprint="leaving"))
    assert visitor.get("/parked/leaving").status_code == 200
    house.stores.build_parked_operator(lambda _: None).discard(_selection("leaving"), by="dana", why="not needed")
    house.clock.advance(60)
    assert visitor.get("/parked/leaving").status_code == 404


def _selection(fingerprint):
    from shared.operating import Selection  # noqa: PLC0415

    return Selection(fingerprint=fingerprint)


def test_a_page_of_the_list_of_jobs_is_two_requests(house, visitor):
    """Its months, and those under way, of which one is enough. The next page is a link. One more reads what is parked."""
    for number in range(60):
        put_job(house.stores, make_job(f"many-{number:03}", chunks=1, done=1))
    first, requests = house.count(lambda: visitor.get("/jobs"))
    assert requests == 3
    shown = re.findall(r"many-\d{3}(?=</a>)", first.text)
    older, requests = house.count(lambda: visitor.get(next_of(first.text)))
    assert requests == 2
    shown += re.findall(r"many-\d{3}(?=</a>)", older.text)
    assert sorted(shown) == [f"many-{number:03}" for number in range(60)]
    for filters, costs in (
        ("state=running", 1),
        ("workload=billing&gate=nightly", 1),
        ("since=2026-01-01&before=2027-01-01", 2),
        ("id=many-0", 1),
    ):
        assert house.count(lambda asked=filters: visitor.get(f"/jobs?{asked}"))[1] == costs, filters
    assert visitor.get("/jobs?state=nothing").status_code == 400
    assert visitor.get("/jobs?since=yesterday").status_code == 400
    assert visitor.get("/jobs?after=nowhere").status_code == 400


def next_of(text):
    """Return the address of the next page, as it stands behind the console's own."""
    return "/jobs?" + html.unescape(re.search(r'rel="next" href="[^"]*/jobs\?([^"]+)"', text)[1])


def test_a_file_of_the_console_costs_nothing(house, visitor):
    """Nor does a refusal."""
    before = house.requests
    visitor.get("/static/00000000/console.css")
    visitor.client.get("/", headers={"Host": HOST})
    assert house.requests == before


def test_one_reads_and_the_others_wait():
    """Eight who ask at once cause one read."""
    reads, ready = [], Barrier(8)

    def read(_known):
        reads.append(1)
        return len(reads)

    part = Part(read, lambda: 100.0)
    found = []

    def ask():
        ready.wait()
        found.append(part.get(5))

    threads = [Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (found, len(reads)) == ([1] * 8, 1)


def test_an_outage_is_found_once_for_all_who_ask_at_once():
    """The ones who waited do not wait for the same timeout again; a later one asks anew."""
    now, reads = [100.0], []

    def read(_known):
        reads.append(1)
        raise OSError("down")

    part = Part(read, lambda: now[0])
    for _ in range(3):
        with pytest.raises(OSError, match="down"):
            part.get(5)
    assert len(reads) == 1
    now[0] += 2
    with pytest.raises(OSError, match="down"):
        part.get(5)
    assert len(reads) == 2


def test_a_gate_is_read_again_only_after_it_was_changed(house, visitor):
    """By the ETag of the list: two requests while nothing changes, one more for each change."""
    for gate in ("first", "second"):
        house.stores.gate_operator.open(gate, by="dana")
    visitor.get("/gates")
    house.clock.advance(60)
    _, unchanged = house.count(lambda: visitor.get("/gates"))
    house.stores.gate_operator.close("second", by="dana")
    house.clock.advance(60)
    reply, changed = house.count(lambda: visitor.get("/gates"))
    assert (unchanged, changed) == (2, 3)
    row = reply.text[reply.text.index("/gate/second") :]
    assert row.index(">closed<") < row.index("</tr>")
