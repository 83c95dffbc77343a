"""Rules from the page: their faults marked, tried on a day of work beside those in force, and put after that."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest

from shared.concurrency import Rules, parse
from shared.concurrency.fleet import Worker
from shared.concurrency.rules import SAMPLE
from shared.watch import Point
from tests.console.conftest import HOST
from tests.console.hostile import TEXTS
from tests.console.test_acts import ORIGIN, acts
from tests.console.test_hostile import Markup

DAY = datetime(2026, 11, 19, 8, tzinfo=UTC)


def record(house, **seen):
    """Leave what a tick saw of the minute from DAY on."""
    house.stores.watch.record(DAY + timedelta(minutes=1), Point(second=0, promise=180, seconds=60, **seen))


def find_address(visitor):
    """Return where the form of the rules leads to."""
    return re.search(r'<form class="act wide" method="post" action="([^"]*)"', visitor.get("/rules").text)[1]


def send_rules(visitor, address, text, day=""):
    """Send the form of the rules, as a browser does."""
    sent = {"Host": HOST, "Origin": ORIGIN, "Sec-Fetch-Site": "same-origin"}
    return visitor.client.post(address, data={"text": text.replace("\n", "\r\n"), "day": day}, headers=sent)


class DryRun:
    """The reply to rules that a person has typed."""

    def __init__(self, visitor, text, day=""):
        self.visitor, self.address = visitor, find_address(visitor)
        self.reply = send_rules(visitor, self.address, text, day)
        found = re.search(r'<form class="act" .*?</form>', self.reply.text, re.DOTALL)
        self.form = found and found[0]

    def put(self, **changes):
        """Send the form that puts these rules, as a browser does."""
        hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', self.form)
        fields = {name: unescape(value).replace("\n", "\r\n") for name, value in hidden}
        address = re.search(r'action="([^"]*)"', self.form)[1]
        sent = {"Host": HOST, "Origin": ORIGIN, "Sec-Fetch-Site": "same-origin"}
        return self.visitor.client.post(address, data=fields | {"why": "a quiet month"} | changes, headers=sent)


def draft(visitor):
    """Return the text that the form offers to begin from."""
    found = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", visitor.get("/rules").text, re.DOTALL)
    return unescape(found[1])


def words(reply):
    """Return the text of a page as a person reads it."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", reply.text)))


def in_force(house):
    """Return the version in force."""
    text = house.stores.rules.text()
    return parse(text).version if text else 0


@pytest.fixture(autouse=True)
def no_rules(house):
    """No rules are in force at the beginning of a test, and none at its end."""
    yield
    container = house.stores.container("settings")
    for blob in container.list_blobs():
        container.delete_blob(blob.name)


def test_rules_are_tried_and_put(house, visitor):
    """From the sample on: the effect beside the built-in rules, then in force, with its row in the audit."""
    text = draft(visitor)
    assert text == SAMPLE
    few = text.replace("tasks: 100", "tasks: 20")
    tried = DryRun(visitor, few)
    assert tried.reply.status_code == 200
    assert re.search(
        r"built in, in force [\d.]+ s [\d.]+ s 100 .* these, version 1 [\d.]+ s [\d.]+ s 50 ", words(tried.reply)
    )
    assert tried.put().status_code == 303
    assert house.stores.rules.text() == few
    assert acts(house, "version 1")[-1] == ("dana", "rules put", "a quiet month", "in force")
    assert draft(visitor) == few.replace("version: 1", "version: 2")


def test_a_dry_run_of_shares_warns_while_a_process_of_before_works(house, visitor):
    """It refuses them. The page says so before they are put, as the command does after it."""
    shares = SAMPLE + "shares:\n  urgent: 30%\n"
    assert "refuse `shares`" not in words(DryRun(visitor, shares).reply)
    house.stores.fleet.report(
        Worker(name="old", at=house.clock.now(), started_at=house.clock.now(), in_flight=0, done=0, busy=0.0)
    )
    assert "processes of before 0.4.0 work now (1), and refuse `shares`" in words(DryRun(visitor, shares).reply)
    assert "refuse `shares`" not in words(DryRun(visitor, SAMPLE).reply)


def test_the_points_of_the_plots_are_those_of_the_simulation(visitor):
    """A quarter of an hour each, by both rules: fewer tasks, longer waits."""
    reply = DryRun(visitor, SAMPLE.replace("tasks: 100", "tasks: 10").replace("tasks: 50", "tasks: 10")).reply
    plotted = dict(re.findall(r'<table id="(points-\w+)">.*?<tbody>(.*?)</tbody>', reply.text, re.DOTALL))
    for name, compare in (("points-waits", float.__gt__), ("points-tasks", float.__lt__)):
        rows = re.findall(r'<tr>.*?<td class="num">([\d.]+)</td><td class="num">([\d.]+)</td></tr>', plotted[name])
        before, after = zip(*((float(one), float(other)) for one, other in rows), strict=True)
        assert len(rows) == 96
        assert (name, compare(max(after), max(before))) == (name, True)


def test_each_fault_stands_at_its_line_and_nothing_is_put(house, visitor):
    """With the line's text; the form keeps the rules."""
    tried = DryRun(visitor, SAMPLE.replace("tasks: 10\n", "tasks: many\n").replace("most: 100", "mots: 100"))
    assert (tried.reply.status_code, tried.form) == (400, None)
    faulty = re.findall(r'<li class="faulty"><code>(.*?)</code><strong>(.*?)</strong>', unescape(tried.reply.text))
    assert [line.strip() for line, _ in faulty] == ["mots: 100", "tasks: many"]
    assert "did you mean 'most'?" in faulty[0][1]
    assert "expected a whole number" in faulty[1][1]
    assert "tasks: many" in re.search(r"<textarea.*?</textarea>", tried.reply.text, re.DOTALL)[0]
    assert in_force(house) == 0


@pytest.mark.parametrize("text", ["", "\n\n", "version: 1", "- [", "{" * 300, "a: &b 1\nc: *b\n", "x" * 20_000])
def test_a_text_that_is_no_rules_is_said_to_be_none(house, visitor, text):
    """Whatever was typed."""
    tried = DryRun(visitor, text)
    assert (tried.reply.status_code, tried.form, "faulty" in tried.reply.text) == (400, None, True)
    assert in_force(house) == 0


def test_a_recorded_day_is_replayed(house, visitor):
    """The day that the tick recorded, in UTC."""
    record(house, arrived=700, latency=0.5)
    reply = DryRun(visitor, SAMPLE, "2026-11-19").reply
    assert reply.status_code == 200
    assert "700 messages of the recorded day" in words(reply)


@pytest.mark.parametrize(
    ("arrived", "day", "said"),
    [
        (None, "2026-11-18", "nothing was recorded on 2026-11-18"),
        (0, "2026-11-19", "nothing arrived on 2026-11-19"),
        (200_001, "2026-11-19", "200,001 messages arrived on 2026-11-19, and a page replays 200,000 at most"),
        (None, "yesterday", "a day has the form 2026-11-20"),
    ],
)
def test_a_day_that_cannot_be_replayed_is_refused(house, visitor, arrived, day, said):
    """With the way to go on."""
    if arrived is not None:
        # Over the same minute.
        record(house, arrived=arrived)
    tried = DryRun(visitor, SAMPLE, day)
    assert (tried.reply.status_code, tried.form, said in words(tried.reply)) == (400, None, True)


def test_rules_that_were_changed_since_are_not_replaced(house, visitor):
    """The page answers with a dry run beside the new ones, and says which version is free."""
    before = acts(house, "version 1")
    tried = DryRun(visitor, SAMPLE)
    house.stores.rules.put(SAMPLE.replace("version: 1", "version: 7"))
    refused = tried.put()
    assert refused.status_code == 409
    assert "changed since your dry run: nothing was done" in words(refused)
    assert "version 7 is in force: give them version 8" in words(refused)
    assert in_force(house) == 7
    assert acts(house, "version 1") == before


def test_a_version_that_was_used_is_refused_before_and_after(house, visitor):
    """The number of a version stands for one text, also of one that is no longer in force."""
    old = SAMPLE.replace("version: 1", "version: 3")
    house.stores.rules.put(old)
    assert "give them version 4" in words(DryRun(visitor, SAMPLE.replace("tasks: 50", "tasks: 51")).reply)
    container = house.stores.container("settings")
    container.delete_blob("rules")
    refused = DryRun(visitor, old.replace("tasks: 50", "tasks: 51")).put()
    assert refused.status_code == 409
    assert "version 3 belongs to other rules" in words(refused)


def test_eight_posts_of_one_form_put_rules_once(house, visitor):
    """The others are answered with the result of the first."""
    tried = DryRun(visitor, SAMPLE)
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: tried.put(why="eight times").status_code, range(8)))
    assert sorted(replies) == [303] + [409] * 7
    assert "was sent before, so it was not done again; its result: in force" in words(tried.put())
    assert len([one for one in acts(house, "version 1") if one[2] == "eight times"]) == 1


def test_other_rules_than_those_of_the_dry_run_are_refused(house, visitor):
    """A form that was changed on its way."""
    tried = DryRun(visitor, SAMPLE)
    refused = tried.put(text=SAMPLE.replace("tasks: 100", "tasks: 99"))
    assert (refused.status_code, "not the rules of the dry run" in words(refused)) == (400, True)
    assert tried.put(why="").status_code == 400
    assert in_force(house) == 0


def test_only_who_may_act_tries_and_puts(house, visitor):
    """A reader sees the rules, and no form."""
    tried = DryRun(visitor, SAMPLE)
    house.login._may_act = False
    assert "<textarea" not in visitor.get("/rules").text
    assert tried.put().status_code == 403
    sent = {"Host": HOST, "Origin": ORIGIN, "Sec-Fetch-Site": "same-origin"}
    assert visitor.client.post(tried.address, data={"text": SAMPLE}, headers=sent).status_code == 403
    assert in_force(house) == 0


def test_the_address_of_a_dry_run_leads_to_the_rules(visitor):
    """Who opens it has no form."""
    assert visitor.get("/rules/dry-run").headers["Location"] == f"{visitor.folder}/rules"


NAMES = [text.replace("'", "''")[:40] for text in TEXTS]
#: In force, each of them has the whole text refused and shown. A form's text has none.
REFUSED = [name for name in NAMES if not {"\x1b", "\x08"}.isdisjoint(name)]


@pytest.mark.parametrize("names", [[name for name in NAMES if name not in REFUSED], *([name] for name in REFUSED)])
def test_a_text_of_others_in_rules_is_text(house, visitor, names):
    """In the names of rules, in force or tried."""
    rules = "".join(
        f"  - {{name: '{name}', when: {{depth: {{below: {least}}}}}, tasks: 1}}\n"
        for least, name in enumerate(names, 1)
    )
    named = SAMPLE.replace("rules:\n", f"rules:\n{rules}")
    reply = DryRun(visitor, named).reply
    assert reply.status_code == 200
    house.stores.container("settings").upload_blob("rules", named.encode(), overwrite=True)
    for shown in (reply, visitor.get("/rules")):
        found = Markup(shown.text)
        assert found.elements.isdisjoint({"img", "iframe", "base", "style"})
        assert found.comments == []
        assert [name for name in found.attributes if name.startswith("on")] == []
        assert [one for one in shown.text if not one.isprintable() and one != "\n"] == []


def test_requests_and_size(house, visitor):
    """Of the page, a dry run and a put."""
    page, requests = house.count(lambda: visitor.get("/rules"))
    assert (requests, len(page.text) < 60_000) == (2, True)
    record(house, arrived=700, latency=0.5)
    tried, requests = house.count(lambda: DryRun(visitor, SAMPLE, "2026-11-19"))
    # Two of the page that had the form.
    assert (requests, len(tried.reply.text) < 60_000) == (4, True)
    _, requests = house.count(tried.put)
    # One marks the act in its hour.
    assert requests == 7


def test_the_sample_of_the_docs_is_the_one_of_the_page():
    """One text."""
    from tools.local.paths import ROOT  # noqa: PLC0415 - of this test alone

    assert (ROOT / "docs" / "rules.sample.yaml").read_text() == SAMPLE
    assert isinstance(parse(SAMPLE), Rules)
