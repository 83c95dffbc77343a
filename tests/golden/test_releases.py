"""What every release stored and sent is read by the code of today: messages, rows, blobs, and the words in them."""

import copy
import json

import pytest

from tests.golden import messages, parts as p, shelves
from tests.golden.__main__ import HERE
from tests.golden.kept import lost

LIMITS = p.Limits()
RELEASES = sorted(folder.name for folder in (HERE / "releases").iterdir())
#: Of messages by their names.
BODIES = {
    "messages",
    "calls",
    "sounds",
    "bounds",
    "waits",
    "stretched",
    "ranges",
    "halts",
    "linemessages",
    "asidemessages",
}
#: Not of a shelf.
OTHERS = BODIES | {"bus", "words", "errors"}


def of(release, name):
    """Return a document of a release."""
    return json.loads((HERE / "releases" / release / f"{name}.json").read_text(encoding="utf-8"))


def names(release):
    """Return the names of a release's golden documents."""
    return sorted({file.stem for file in (HERE / "releases" / release).glob("*.json")} - {"surface"})


STORED = [(release, name) for release in RELEASES for name in names(release) if name not in OTHERS]
SENT = [
    (release, document, name)
    for release in RELEASES
    for document in sorted(BODIES & set(names(release)))
    for name in of(release, document)
]


def read_and_written(name, document):
    """Return what today's stores read of a document, and what they leave when that is stored again."""
    found = shelves.read_again(name, document)
    return found, shelves.written(name, found)


@pytest.mark.parametrize(("release", "name"), STORED)
def test_rows_and_blobs_of_a_release_are_read(release, name):
    """The values are those of today; where a format has grown since, nothing of what was stored is lost."""
    document = of(release, name)
    found, written = read_and_written(name, document)
    if found != shelves.SHELVES[name].values:
        assert list(lost(document, written)) == []


def decoded_again(name, body):
    """Return a message as today's code sends it after reading it."""
    if name.startswith("permit") or name == "feed call":
        return p.encode_permit(p.decode_permit(body.encode())).decode()
    if name.startswith("submission: "):
        # A submission becomes a job, and is never sent again.
        read = p.read_submission(p.open_envelope(body, LIMITS), "m-1", LIMITS)
        said = json.loads(body)["sluice"]
        assert (read.job, read.gate) == (said.get("job", "m-1"), said.get("gate"))
        return body
    return p.encode(p.decode(body.encode())).decode()


@pytest.mark.parametrize(("release", "document", "name"), SENT)
def test_messages_of_a_release_are_read(release, document, name):
    """Those that were on a queue when the code was replaced."""
    body = of(release, document)[name]
    assert list(lost(body, decoded_again(name, body))) == []


@pytest.mark.parametrize("release", RELEASES)
def test_what_a_release_sent_over_the_bus_is_read(release):
    """Hints by their properties, permits, results and events by their bodies."""
    for sent in of(release, "bus"):
        kind = sent["properties"].get("kind")
        if kind == "release":
            hint = p.Hint.of(sent["subject"], sent["properties"])
            said = {"gate": hint.gate, "since": hint.since, "slice": hint.slice, "job": hint.job}
            assert {name: said[name] for name in said if name in sent["properties"]} == {
                name: value for name, value in sent["properties"].items() if name in said
            }
        else:
            # A permit before 0.4.0 has its kind outside too.
            name = "permit" if json.loads(sent["body"])["sluice"]["kind"] == "work" else ""
            assert list(lost(sent["body"], decoded_again(name, sent["body"]))) == []


@pytest.mark.parametrize("release", RELEASES)
def test_words_and_errors_of_a_release_are_known(release):
    """They stand in rows for good: a state, a stage, a reason that goes makes a row unreadable."""
    today, before = messages.words(), of(release, "words")
    keys = before.pop("keys")
    assert {kind: set(words) - set(today[kind]) for kind, words in before.items()} == {kind: set() for kind in before}
    assert list(lost(keys, today["keys"])) == []
    assert set(of(release, "errors")) - set(messages.errors()) == set()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows[0].pop("state"), ["/0|1/state is not there"]),
        (lambda rows: rows[0].update(state="done"), ["/0|1/state was 'open', is 'done'"]),
        (lambda rows: rows[0].update(count="2"), ["/0|1/count was 2, is '2'"]),
        (lambda rows: rows[0].update(body='{"a":[1]}'), ["/0|1/body/a had 2 items, has 1"]),
        (lambda rows: rows.pop(1), ["/0|2 was {'PartitionKey': '0', 'RowKey': '2'}, is None"]),
        (lambda rows: rows.insert(0, {"PartitionKey": "0", "RowKey": "0"}), []),
        (lambda rows: rows[0].update(nonce="2", more=1, body='{"b":0,"a":[1,2]}'), []),
    ],
)
def test_a_loss_is_found_and_an_addition_is_none(change, said):
    """Rows are compared by their keys, texts of JSON by what they say."""
    rows = [
        {"PartitionKey": "0", "RowKey": "1", "state": "open", "count": 2, "nonce": "1", "body": '{"a":[1,2]}'},
        {"PartitionKey": "0", "RowKey": "2"},
    ]
    after = copy.deepcopy(rows)
    change(after)
    assert list(lost(rows, after)) == said
