"""The decisions of `sluice doctor` over plain data: what differs, what follows, and the command that mends it."""

import json
import tempfile
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import MappingProxyType

import pytest
from azure.core.exceptions import ClientAuthenticationError
from azure.servicebus import ServiceBusReceiver
from functions_local_host.schedule import ScheduleError, parse_cron

from shared import __version__
from shared.azure.transport import PlainTransport, WholeReplies
from shared.topology import BusEntities, BusQueue, CorrelationFilter, DeliveryRules, SqlFilter, Subscription, Topic
from tools.cli.bus_drift import compare, in_words
from tools.cli.doctor import State, examine, judge_clock
from tools.cli.drift import compare_bus, look, look_at_version
from tools.cli.host_drift import fault_of_schedule, judge_functions, judge_host
from tools.local.paths import ROOT

MINUTE = timedelta(minutes=1)
NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)


def words_of(wanted, found, *, is_local=False):
    """Return the sentence about one queue."""
    (said,) = compare(BusEntities((wanted,)), BusEntities((found,))).values()
    return in_words(said, is_local=is_local)


def queue(window=None, megabytes=None, **rules):
    """Return a queue."""
    return BusQueue("q", DeliveryRules(**rules), window, megabytes)


@pytest.mark.parametrize(
    ("wanted", "found", "said"),
    [
        (queue(), queue(), ""),
        (queue(), queue(megabytes=1024), ""),
        (
            queue(lock=MINUTE),
            queue(lock=2 * MINUTE),
            "lock: 120 s, deployed is 60 s, so the work of a process that died",
        ),
        (queue(max_delivery_count=2), queue(max_delivery_count=3), "deliveries: 3, deployed is 2, so a message that"),
        (queue(time_to_live=MINUTE), queue(), "time to live: without end, deployed is 60 s, so stale messages stay"),
        (queue(time_to_live=2 * MINUTE), queue(time_to_live=MINUTE), "so messages are lost before they are read"),
        (queue(), queue(dead_letter_expired=True), "on, deployed is off, so what expires fills its dead letters"),
        (queue(), queue(forward_dead_letters="x"), "x, deployed is nowhere, so its dead letters go to x"),
        (queue(), queue(MINUTE), "over 60 s, deployed is off, so a message that is sent again on purpose is dropped"),
        (queue(MINUTE), queue(2 * MINUTE), "window of duplicates: over 120 s, deployed is over 60 s"),
        (queue(megabytes=5120), queue(megabytes=1024), "size: 1024 MB, deployed is 5120 MB"),
    ],
)
def test_a_property_that_differs_is_said_with_its_consequence(wanted, found, said):
    """And nothing is said of one that does not."""
    words = words_of(wanted, found)
    assert said in words
    assert bool(words) == bool(said)


def test_the_command_that_mends_it_depends_on_the_bus_and_the_property():
    """An entity keeps sessions and duplicate detection for life; a local bus reads a file."""
    assert words_of(queue(), queue(sessions=True)).endswith("(`az servicebus`), then `azd provision`")
    assert words_of(queue(), queue(lock=MINUTE)).endswith("`azd provision` sets it again")
    assert "start `make up` anew" in words_of(queue(), queue(lock=MINUTE), is_local=True)


RED, BLUE = (CorrelationFilter(MappingProxyType({"colour": one})) for one in ("red", "blue"))
EVERYTHING = SqlFilter("1=1")


@pytest.mark.parametrize(
    ("wanted", "found", "said"),
    [
        ((RED,), (RED,), ""),
        ((RED, BLUE), (BLUE, RED), ""),
        ((), (EVERYTHING,), ""),
        (
            (RED,),
            (EVERYTHING,),
            "everything passes, deployed is colour=red, so its receiver gets messages that are for others",
        ),
        ((RED,), (RED, BLUE), "so its receiver gets messages that are for others"),
        (
            (RED, BLUE),
            (RED,),
            "colour=red, deployed is colour=blue or colour=red, so messages that it is for do not reach it",
        ),
        ((RED,), (), "nothing passes, deployed is colour=red, so messages that it is for do not reach it"),
        ((), (RED,), "colour=red, deployed is everything passes, so messages that it is for do not reach it"),
    ],
)
def test_rules_are_compared_by_their_filters(wanted, found, said):
    """Their order and their names do not count."""
    wanted, found = (BusEntities((), (Topic("t", (Subscription("s", one),)),)) for one in (wanted, found))
    differences = compare(wanted, found)
    assert differences["topic", "t"] == []
    words = in_words(differences["subscription", "t/s"], is_local=False)
    assert (said in words, bool(words)) == (True, bool(said))
    assert not words or words.endswith(": `sluice provision` mends it")


def test_an_entity_that_is_missing_is_not_compared():
    """The look at it has a finding of its own."""
    wanted = BusEntities((queue(),), (Topic("t", (Subscription("s"),)), Topic("u", (Subscription("s"),))))
    assert compare(wanted, BusEntities((), (Topic("t", ()),))) == {("topic", "t"): []}


@pytest.mark.parametrize(
    "text",
    [
        "0 * * * * *",
        "*/10 0-30/5 1,2 * JAN-Mar Monday",
        "0 0 4 * * 1-5",
        "30 59 23 31 12 0",
        # The host turns such a range round.
        "0 30-20 * * * *",
        "0 5/15 * * j tU",
    ],
)
def test_a_schedule_that_parses(text):
    """Steps, ranges, lists and names. The local host says the same."""
    assert fault_of_schedule(text) == ""
    assert parse_cron(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "every minute",
        "* * * * *",
        "60 * * * * *",
        "0 */0 * * * *",
        "0 0 24 * * *",
        "0 0 0 0 * *",
        "0 0 0 * 13 *",
        "0 0 0 * * 7",
        "0 1-x * * * *",
        "0 0 0 1 janx *",
        "0 0 0 1 5- *",
        "0 -1 * * * *",
        "0 ,1 * * * *",
    ],
)
def test_a_schedule_that_does_not(text):
    """The host refuses it, and the timer never runs. The local host says the same, but for five fields."""
    assert fault_of_schedule(text)
    if text.count(" ") == " * * * * *".count(" "):
        with pytest.raises(ScheduleError):
            parse_cron(text)


def problems(host_json, settings):
    """Return the problems with host.json and threads."""
    return {one.name: one.problem for one in judge_host(host_json, settings) if one.problem}


def test_a_file_without_an_encoding_has_the_host_s():
    """A value that the file lacks is the host's own."""
    found = problems({"extensions": {"queues": {"maxDequeueCount": 100}}}, {"PYTHON_THREADPOOL_THREAD_COUNT": "24"})
    assert set(found) == {"extensions.queues.messageEncoding"}
    assert found["extensions.queues.messageEncoding"].endswith("no job begins: correct it there")


def test_overrides_count_before_the_file_in_any_case_of_letters():
    """As the host reads them, and where there is no file at all."""
    override = {"AzureFunctionsJobHost:Extensions:Queues:MessageEncoding": "None"}
    assert problems(None, override) == {}
    assert set(problems(None, {"azurefunctionsjobhost__extensions__servicebus__AutoCompleteMessages": "False"})) == {
        "extensions.servicebus.autoCompleteMessages"
    }


def test_a_worker_without_a_number_of_threads_has_few():
    """So an instance takes messages that wait."""
    host = {"extensions": {"queues": {"messageEncoding": "none", "maxDequeueCount": 100, "batchSize": 4}}}
    (said,) = problems(host, {}).values()
    assert said.startswith("is not set, and a worker has 5 or 6 threads, but an instance takes 12 messages")


def test_work_that_workers_do_may_be_off_in_the_app():
    """And a function that is not off is nothing to say."""
    settings = {"AzureWebJobs.drain_work.Disabled": "true", "AzureWebJobs.tick.Disabled": "false"}
    (found,) = judge_functions(settings)
    assert (found.name, found.problem) == ("drain_work", "")
    assert "sluice worker" in found.note
    (found,) = judge_functions({"AzureWebJobs_shop_Disabled": "1"})
    assert (found.name, found.state) == ("shop", State.DIFFERS)


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, ""), (60, ""), (-60, ""), (61, "is 61 s ahead of"), (-600, "behind")]
)
def test_a_clock_is_wrong_from_a_minute_on(seconds, said):
    """Beside the time of storage."""
    found = judge_clock(NOON + timedelta(seconds=seconds), NOON)
    assert (said in found.problem, bool(found.problem)) == (True, bool(said))


def test_a_login_without_the_right_to_administer_leaves_the_properties_unchecked(stack_settings, monkeypatch):
    """The rest is found, and it is no fault of the installation."""

    def refuse(*_, **__):
        raise ClientAuthenticationError("Manage is required")

    monkeypatch.setattr(PlainTransport, "send", refuse)
    looked = list(examine(stack_settings))
    *same, unchecked = compare_bus(stack_settings, looked)
    assert (same, unchecked.state, unchecked.problem) == (looked, State.UNCHECKED, "")
    assert unchecked.note == "not checked: needs a key with the right Manage"


def test_a_look_makes_the_requests_that_the_page_says(stack_settings, monkeypatch):
    """Each one is money."""
    sent, plainly, peeked = [], [], []
    count(monkeypatch, WholeReplies, "send", sent)
    count(monkeypatch, PlainTransport, "send", plainly)
    count(monkeypatch, ServiceBusReceiver, "peek_messages", peeked)
    assert not [one for one in look_with(stack_settings) if one.problem]
    # What goes plainly goes on as the others do.
    said = (
        f"it makes {len(sent) - len(plainly)} requests of storage, {len(plainly)} of the bus's administration, and "
        f"{len(peeked)} peeks"
    )
    assert said in " ".join((ROOT / "docs" / "operating.md").read_text().split())


def look_with(settings):
    """Look at an installation by a settings file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "settings.json"
        file.write_text(json.dumps({"Values": settings}))
        return look(file)


def count(monkeypatch, kind, name, calls):
    """Note each call of a method."""
    before = getattr(kind, name)

    def counted(self, *words, **options):
        calls.append(name)
        return before(self, *words, **options)

    monkeypatch.setattr(kind, name, counted)


@pytest.fixture
def health():
    """An app that answers to `health` as it is told."""
    said = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            """Answer."""
            body = json.dumps(said["document"]).encode()
            self.send_response(said["status"])
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

        def look(code, **document):
            said.update(status=code, document=document)
            return look_at_version(f"http://127.0.0.1:{server.server_port}/")

        yield look
        server.shutdown()


def test_the_version_of_the_app_is_that_of_the_command(health):
    """Else each may leave alone what the other wrote."""
    assert health(200, status="ok", version=__version__).state is State.OK
    found = health(200, status="ok", version="0.1.0")
    assert (found.state, found.problem.startswith("is 0.1.0, and this command is of")) == (State.DIFFERS, True)
    refused = health(503, status="refused", version=__version__, log="sluice.start.refused")
    assert "look for sluice.start.refused in its log" in refused.problem
    assert health(404).state is State.FAULTY
    assert look_at_version("http://127.0.0.1:9").state is State.UNREACHABLE
