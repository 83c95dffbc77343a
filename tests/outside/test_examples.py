"""What the documents say to type is typed, and does what they say: each example with its effect, on one stack."""

import json
import re
import shlex

import pytest

from tests.outside.examples import EXAMPLES, NOTHING_FOUND, USAGE, World
from tests.outside.people import running
from tests.waiting import until
from tools.local.paths import ROOT

#: Those of docs/formats.md and its files that tests/publish runs to a complete job: two shells, Node, Python, the least message twice,
#: and Python that hears of the end.
ELSEWHERE = 7
SALE = {"shop": "north", "amount": "2.50"}


def example(page, language, number=0):
    """Return an example of a page as it stands there."""
    text = (ROOT / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)[number]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder where everything is typed, with the workloads of docs/workloads.md beside the app."""
    made = tmp_path_factory.mktemp("examples")
    (made / "usage.ndjson").write_bytes(USAGE)
    (made / "shops.py").write_text(example("docs/workloads.md", "python", 1))
    (made / "docs").symlink_to(ROOT / "docs")
    return made


@pytest.fixture(scope="module")
def world(folder):
    """A stack of its own: what is listed is all that there is."""
    setting = json.loads((ROOT / "own" / "settings.json").read_text())["SLUICE_WORKLOADS"] + ",shops:Shops"
    with running(SLUICE_WORKLOADS=setting, PYTHONPATH=f"{ROOT}:{folder}") as people:
        yield World(people)


def late(world, *names):
    """Send submissions whose payloads come after they were parked, and return their group."""
    for name in names:
        world.people.publisher.send({"sluice": {"job": name, "payload": {"blob": f"late/{name}"}}})
    found = until(lambda: world.parked(reason="payload_missing", entries=len(names)))
    for name in names:
        world.people.publisher.put(f"late/{name}", USAGE)
    return found


def what_stands_for(word, world):
    """Return what a word in capitals stands for: something of what is parked."""
    reason = "unknown_workload" if word == "DISCARDED" else "payload_missing"
    (group,) = world.parked(reason=reason) or late(world, "late-more")
    if word in {"FINGERPRINT", "DISCARDED"}:
        return group["fingerprint"]
    entry = world.people.operator.asks("parked", "list", group["fingerprint"])["entries"][0]
    return entry["job"] if word == "JOB" else entry["key"]


@pytest.fixture(scope="module")
def parked(world):
    """Two submissions whose payloads come late, and one of a workload that nobody has."""
    late(world, "late-0", "late-1")
    world.people.publisher.send({"sluice": {"job": "never", "workload": "nobodys", "items": [{}]}})
    until(lambda: world.parked(reason="unknown_workload"))


@pytest.mark.parametrize("typed", EXAMPLES, ids=[f"{page}: {text}" for page, text, _ in EXAMPLES])
def test_what_a_page_says_to_type_does_what_it_says(world, folder, monkeypatch, request, typed):
    """It stands in the page word for word, ends well, and its effect is there."""
    page, text, is_there = typed
    assert text in (ROOT / page).read_text().replace(".venv/bin/", "")
    monkeypatch.chdir(folder)
    if page == "docs/parked.md" or "replay" in text:
        request.getfixturevalue("parked")
    discarded = text.replace("FINGERPRINT", "DISCARDED") if "discard" in text else text
    words = shlex.split(
        re.sub(r"\b(JOB|KEY|FINGERPRINT|DISCARDED)\b", lambda word: what_stands_for(word[0], world), discarded)
    )
    world.said = world.people.operator.types(*words[1:], status=int(text == NOTHING_FOUND))
    assert is_there(world), world.said


def test_forty_examples_have_their_effect():
    """As many as are asked for; a test that drops one has to say so here."""
    assert len({(page, text) for page, text, _ in EXAMPLES}) + ELSEWHERE + 2 >= 40


def test_the_workload_of_the_page_runs(world):
    """Its two totals are what two shops sold; a sale of nothing is rejected by it."""
    sales = [SALE, {**SALE, "amount": "1.25"}, {"shop": "south", "amount": "-1"}, {"shop": "south", "amount": "4"}]
    world.people.publisher.send({"sluice": {"job": "shops-1", "workload": "shops", "items": sales}})
    found = world.people.operator.ends("shops-1")
    assert (found["state"], found["accepted"]["items"], found["rejected"]["items"]) == ("complete", 3, 1)
    assert found["accepted"]["sums"] == {"amount": "7.75"}


def test_the_numbers_of_the_page_are_those(world):
    """A sequence of its own begins at 1, and many adjoin."""
    names = {"connection_string": world.people.operator.storage}
    text = example("docs/ids.md", "python").replace("numbers.next_id()", "one = numbers.next_id()")
    exec(text.replace("numbers.next_ids(1000)", "many = numbers.next_ids(1000)"), names)
    assert (names["one"], names["many"]) == (1, range(2, 1002))
