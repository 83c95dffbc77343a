"""Replays from the pages: the dry run, the start, the waves, and the stop."""

import re
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlencode

import pytest
from msgspec.structs import replace as replace_struct

from shared.operating import ReplayFate, Wave
from shared.operating.replay_record import ReplayState, end as end_replay
from shared.parked import EntryState
from tests.console.fillings import NOON, make_entry, park
from tests.console.test_acts import Form, acts


@pytest.fixture
def cause(house, request):
    """A cause of this test's own, with four entries."""
    name = f"cause{abs(hash(request.node.name))}"
    for number in range(4):
        park(house.stores, make_entry(f"job-{name}", number, fingerprint=name))
    return name


def start(house, visitor, cause):
    """Start a replay of a cause from its page, and return its id."""
    sent = Form(visitor, f"/parked/{cause}", "Replay them").send("mended")
    assert sent.status_code == 303, sent.text
    return sent.headers["Location"].rpartition("/")[2]


def test_a_replay_is_started_after_its_dry_run_and_has_a_page(house, visitor, cause):
    """The page of the cause says what it does and how many waves it takes; the reply leads to the page of the replay."""
    said = " ".join(visitor.get(f"/parked/{cause}").text.split())
    assert "Replay 4 entries in 3 waves" in said
    assert "4 entries of 1 job, of which 0 get a new revision: " in said
    assert "transactions in 3 waves, 3 s to 30 s, about" in said
    replay = start(house, visitor, cause)
    page, requests = house.count(lambda: visitor.get(f"/replay/{replay}"))
    assert ("It begins within a minute." in page.text, requests) == (True, 1)
    listed, requests = house.count(lambda: visitor.get("/replays"))
    assert (replay in listed.text, requests) == (True, 1)
    assert house.stepped == [replay]
    ((who, what, why, result),) = acts(house, cause)
    assert (who, what, why, replay in result) == ("dana", "parked replay", "mended", True)


def test_a_form_that_is_posted_twice_is_one_replay(house, visitor, cause):
    """The second one is told what the first one did."""
    form = Form(visitor, f"/parked/{cause}", "Replay them")
    assert form.send().status_code == 303
    assert form.send().status_code == 409
    assert len(house.stepped) == 1


def test_what_has_changed_since_is_asked_again(house, visitor, cause):
    """A fifth entry came after the person had looked."""
    form = Form(visitor, f"/parked/{cause}", "Replay them")
    park(house.stores, make_entry(f"job-{cause}", 9, fingerprint=cause))
    refused = form.send()
    assert (refused.status_code, house.stepped) == (409, [])
    assert "has changed since you saw it" in refused.text


def choose(visitor, cause, entries):
    """Return the address of the page of a cause for these entries alone."""
    wanted = {f"{one.job}|{one.key}" for one in entries}
    boxes = re.findall(r'name="pick" value="([^"]+)"', visitor.get(f"/parked/{cause}").text)
    assert wanted <= set(boxes)
    return f"/parked/{cause}?{urlencode([('pick', one) for one in boxes if one in wanted])}"


def test_chosen_entries_alone_are_replayed(house, visitor, cause):
    """The page says how many they are; an earlier release finds none of them by the row of the replay."""
    entries = list(house.stores.parked_table.entries(f"job-{cause}"))
    page = choose(visitor, cause, entries[1:3])
    assert "Replay 2 entries in 2 waves" in " ".join(visitor.get(page).text.split())
    form = Form(visitor, page, "Replay them")
    replay = form.send("two of them").headers["Location"].rpartition("/")[2]
    found = house.stores.replays.get(replay)
    assert (found.entries, found.selection.key) == (2, "~picks")
    sent = house.stores.build_parked_operator(lambda _seconds: None).select(found.selection)
    assert {one.key for one in sent} == {one.key for one in entries[1:3]}
    assert "2 chosen" in visitor.get("/replays").text


def test_of_chosen_entries_none_is_sent_when_another_console_replayed_one(house, visitor, cause):
    """Three of four were chosen; one of them is not as it was seen."""
    entries = list(house.stores.parked_table.entries(f"job-{cause}"))
    form = Form(visitor, choose(visitor, cause, entries[:3]), "Replay them")
    other = house.stores.parked_table.change(entries[0], replace(entries[0], state=EntryState.REPLAYED, replays=1))
    assert other is not None
    refused = form.send("three of them")
    assert (refused.status_code, house.stepped) == (409, [])
    assert "has changed since you saw it" in refused.text
    assert "<strong>3 chosen</strong> entries" in refused.text


def test_chosen_entries_alone_are_discarded_and_at_most_fifty(house, visitor, cause):
    """The others stay open."""
    entries = list(house.stores.parked_table.entries(f"job-{cause}"))
    assert Form(visitor, choose(visitor, cause, entries[:1]), "Discard them").send("no use").status_code == 303
    assert [one.key for one in house.stores.parked_table.entries(f"job-{cause}")] == [one.key for one in entries[1:]]
    many = urlencode([("pick", f"job|key-{number}") for number in range(51)])
    assert visitor.get(f"/parked/{cause}?{many}").status_code == 400


def test_a_replay_is_stopped_from_its_page(house, visitor, cause):
    """Its next step ends it; the page says who stopped it, and offers no stop any more."""
    replay = start(house, visitor, cause)
    assert Form(visitor, f"/replay/{replay}", "Stop this replay").send("wrong cause").status_code == 303
    found = house.stores.replays.get(replay)
    assert (found.state, found.stopped_by) == (ReplayState.STOPPING, "dana")
    house.stores.build_parked_operator(lambda _seconds: None).run.step(found)
    page = visitor.get(f"/replay/{replay}").text
    assert "stopped by dana: nothing to replay" in page
    assert "Stop this replay" not in page
    assert acts(house, replay) == [("dana", "parked replay stop", "wrong cause", "done: stopping")]


def test_a_replay_that_nobody_steps_is_shown_as_standing_still(house, visitor, cause):
    """With the command that goes on."""
    replay = start(house, visitor, cause)
    house.clock.advance(181)
    page = visitor.get(f"/replay/{replay}").text
    assert re.search(r"stands still", page)
    assert f"sluice parked follow {replay}" in page


def test_its_waves_are_shown_with_their_fates(house, visitor, cause):
    """One wave that no worker answered."""
    replay = start(house, visitor, cause)

    def wait(seconds):
        house.clock.advance(seconds)

    house.stores.build_parked_operator(wait).run.step(house.stores.replays.get(replay))
    page = visitor.get(f"/replay/{replay}").text
    assert re.search(r"<td>1 (no answer|cannot be sent|done)</td>", page), page


def test_a_replay_says_how_far_it_is_and_why_it_stopped(house, visitor, cause):
    """The share and the time left by its waves so far. At its end the stop is gone, and the cause is one link away."""
    replay = house.stores.replays.get(start(house, visitor, cause))
    began, ended = NOON, NOON + timedelta(seconds=20)
    waves = tuple(Wave(number=n, counts={ReplayFate.DONE: n}, began_at=began, ended_at=ended) for n in (1, 2))
    known = replace_struct(replay, entries=460, taken=8, begun=3, waves=waves, state=ReplayState.RUNNING)
    house.stores.replays.change(known)
    page = visitor.get(f"/replay/{replay.id}").text
    assert "wave 3 of 13, 1 %, about 3 min 20 s left." in page
    assert "data-over" not in page
    came_back = Wave(number=3, counts={ReplayFate.SAME_AGAIN: 1, ReplayFate.DONE: 4}, began_at=began, ended_at=ended)
    known = replace_struct(house.stores.replays.get(replay.id), waves=(*waves, came_back), counts=came_back.counts)
    house.stores.replays.change(end_replay(known, NOON))
    page = visitor.get(f"/replay/{replay.id}").text
    assert "stopped: 1 came back for the same cause (8 of 460 sent): 4 done, 1 same again" in page
    assert ("data-over" in page, "Stop this replay" in page, f"/parked/{cause}" in page) == (True, False, True)


def test_an_unknown_replay_is_not_found(visitor):
    """No row, no page."""
    assert visitor.get("/replay/20200101-000000-00000000").status_code == 404
