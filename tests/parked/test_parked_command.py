"""`sluice parked`, as a person runs it."""

import json
import secrets
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest
from azure.core.exceptions import ResourceExistsError

from shared.errors import NotParkedError, RefusedError
from shared.messages import Delivery
from shared.operating.audit import acts_of
from shared.parked import overflow
from shared.parked.entry import ACCEPT, DOOR, NO_JOB, EntryState
from shared.parked.parking import Parking, at_the_door, door_key
from tests.parked.stages import stages
from tests.parked.test_cause_index import make_entry


@pytest.fixture
def entry(ward):
    """One of three parked chunks."""
    return ward.entries[0]


def test_the_list_shows_causes_and_what_to_do(sluice, entry):
    """A person sees what failed, how often, and what to do about it."""
    done = sluice("list", "--job", entry.job)
    assert done.exit_code == 0
    for part in (entry.fingerprint, "failed:ZeroDivisionError", "process", "deploy, then replay"):
        assert part in done.stdout


def test_the_list_for_programs_is_one_document(sluice, entry):
    """Groups, and the entries of one cause."""
    (group,) = json.loads(sluice("list", "--job", entry.job, "--json").stdout)["groups"]
    assert (group["fingerprint"], group["entries"], group["last_jobs"]) == (entry.fingerprint, 1, [entry.job])
    (one,) = json.loads(sluice("list", entry.fingerprint, "--job", entry.job, "--json").stdout)["entries"]
    assert (one["job"], one["key"], one["state"], one["attempts"]) == (entry.job, entry.key, "open", 5)


def test_the_beginning_of_a_fingerprint_and_of_a_key_is_enough(sluice, ward, entry):
    """What a person copied from a narrow terminal means the one entry that it fits."""
    (one,) = json.loads(sluice("list", entry.fingerprint[:6], "--job", entry.job, "--json").stdout)["entries"]
    assert one["key"] == entry.key
    assert sluice("show", entry.job, entry.key[:9], "--body").stdout_bytes == ward.worlds[0].body
    done = sluice("replay", entry.fingerprint[:6], "--job", entry.job, "--patience", "0", "--yes")
    assert done.stdout.splitlines()[-1] == "1 no answer"
    with ward.process() as process:
        table = process.connections.tables.get_table_client("audit")
        rows = table.query_entities("target eq @target", parameters={"target": f"{entry.fingerprint} {entry.job}"})
        (one,) = acts_of(rows)
    assert one.act.what == "parked replay"


def test_the_transactions_of_an_entry_are_written_and_the_audit_says_to_whom(sluice, ward, entry):
    """From the one that failed, which was the first; `--most` bounds them."""
    done = sluice("lines", entry.job, entry.key[:9], "--limit", "2", "--why", "a customer asks")
    assert [json.loads(line)["amount"] for line in done.stdout.splitlines()] == ["0.10", "1.10"]
    assert "there are more" in done.stderr
    with ward.process() as process:
        table = process.connections.tables.get_table_client("audit")
        (one,) = acts_of(table.query_entities("target eq @target", parameters={"target": f"{entry.job} {entry.key}"}))
    assert (one.act.what, one.act.why, one.act.result) == ("parked lines", "a customer asks", "shown: 2 lines")


def test_a_selection_that_meets_nothing_is_status_1(sluice, entry):
    """A cut or misspelt fingerprint is no success, whatever the command would have done with it."""
    unknown = "facade" * 2
    for arguments in (
        ["list", unknown],
        ["list", "--job", "no-such-job", "--json"],
        ["replay", unknown, "--yes"],
        ["replay", unknown, "--dry-run"],
        ["discard", unknown, "--why", "x", "--yes"],
    ):
        assert sluice(*arguments).exit_code == 1, arguments
    assert "nothing is parked of facadefacade" in sluice("replay", unknown, "--yes").stdout


def test_what_is_closed_already_needs_nothing(sluice, entry):
    """Discarded twice is discarded: no error, and the command says so."""
    discard = ("discard", "--job", entry.job, "--why", "published again", "--yes")
    sluice(*discard)
    again = sluice(*discard)
    assert (again.exit_code, again.stdout) == (0, f"all 1 of {entry.job} are done or discarded already\n")


def test_what_has_no_effect_yet_is_sent_again_by_name_only(sluice, entry):
    """The second replay says what it would take."""
    replay = ("replay", "--job", entry.job, "--patience", "0", "--yes")
    sluice(*replay)
    again = sluice(*replay)
    assert again.exit_code == 1
    assert "--again" in again.stdout


def test_show_tells_everything_and_gives_the_very_bytes(sluice, ward, entry):
    """What was parked can be looked at, and sent elsewhere."""
    assert entry.message_id in sluice("show", entry.job, entry.key).stdout
    assert json.loads(sluice("show", entry.job, entry.key, "--json").stdout)["sha256"] == entry.sha256
    assert sluice("show", entry.job, entry.key, "--body").stdout_bytes == ward.worlds[0].body


def test_what_is_not_there_is_said(sluice):
    """A misspelt key is an error that says where to look."""
    with pytest.raises(NotParkedError, match="of job 'no-such-job': see `sluice parked list`"):
        sluice("show", "no-such-job", "no-such-key")


def test_a_dry_run_changes_nothing(sluice, ward, entry):
    """It says what it would do, and in which waves it would go. For programs too."""
    done = sluice("replay", "--job", entry.job, "--dry-run")
    said, waves = done.stdout.splitlines()
    assert said.startswith("1 entry of 1 job, of which 0 get a new revision: ")
    assert waves == "1 to replay, in waves of 1"
    found = json.loads(sluice("replay", "--job", entry.job, "--dry-run", "--json").stdout)
    assert (found["entries"], found["waves"], found["jobs"], found["again"]) == (1, [1], 1, 0)
    assert ward.entries[0] == entry
    assert ward.queue.get_queue_properties().approximate_message_count == 0


def test_a_replay_nobody_answers_says_so(sluice, ward, entry):
    """The message is back on its queue, the entry is kept, the status is 1, and the audit knows who it was."""
    done = sluice("replay", "--job", entry.job, "--patience", "0", "--yes", "--by", "ann", "--why", "deployed")
    first, *rest = done.stdout.splitlines()
    assert (done.exit_code, rest) == (1, ["wave 1 of 1: 1 no answer", "1 no answer"])
    assert ward.entries[0].state is EntryState.REPLAYED
    assert ward.queue.get_queue_properties().approximate_message_count == 1
    with ward.process() as process:
        table = process.connections.tables.get_table_client("audit")
        (recorded,) = acts_of(table.query_entities("target eq @job", parameters={"job": entry.job}))
    act = recorded.act
    assert (act.who, act.what, act.why) == ("ann", "parked replay", "deployed")
    assert first == f"replay {act.details['replay']} of 1"
    (listed,) = [
        one
        for one in json.loads(sluice("replays", "--json").stdout)["replays"]
        if one["replay"] == act.details["replay"]
    ]
    assert (listed["state"], listed["who"], listed["result"]) == ("ended", "ann", "1 no answer")
    assert act.details["replay"] in sluice("replays").stdout
    again = json.loads(sluice("stop", act.details["replay"], "--by", "bo", "--json").stdout)
    assert (again["state"], again["stopped_by"]) == ("ended", "")
    assert sluice("follow", act.details["replay"]).stdout.splitlines()[-1] == "1 no answer"


def test_nothing_happens_without_a_yes(sluice, ward, entry):
    """Whoever is asked and says no has changed nothing."""
    for command in (["replay"], ["discard", "--why", "x"]):
        assert sluice(*command, "--job", entry.job, answer="n\n").exit_code == 1
    assert ward.entries[0] == entry


def test_a_discard_closes_with_its_reason(sluice, ward, entry):
    """It is gone from the list, and not from the table."""
    done = sluice("discard", "--job", entry.job, "--why", "published again", "--by", "ann", "--yes")
    assert done.stdout == "1 of 1 discarded\n"
    assert "nothing is parked" in sluice("list", "--job", entry.job).stdout
    assert ward.entries[0].note == "ann: published again"
    (group,) = json.loads(sluice("list", "--job", entry.job, "--all", "--json").stdout)["groups"]
    assert group["entries"] == 1


def test_all_that_failed_for_one_reason_is_discarded_by_its_causes(sluice, ward, entry):
    """The audit says how many. A reason that nothing has is no success."""
    assert sluice("discard", "--reason", "failed:Other", "--why", "x", "--yes").exit_code == 1
    done = sluice("discard", "--reason", entry.reason, "--why", "published again", "--yes", "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["discarded"] >= 1
    assert ward.entries[0].state is EntryState.DISCARDED
    with ward.process() as process:
        table = process.connections.tables.get_table_client("audit")
        acts = acts_of(table.query_entities("target eq @reason", parameters={"reason": entry.reason}))
    assert [one.act.details["discarded"] for one in acts] == [str(json.loads(done.stdout)["discarded"])]


@pytest.mark.parametrize("arguments", [["replay"], ["discard", "--why", "x"], ["discard", "--job", "j", "--why", " "]])
def test_a_call_that_would_take_everything_is_refused(sluice, arguments):
    """Without a selection, or without a reason, the call makes no sense."""
    assert sluice(*arguments, "--yes").exit_code == 2


def test_text_of_a_message_cannot_steer_the_terminal(sluice, ward, entry):
    """An exception that quotes a transaction may hold escape sequences and markup: they are shown, not obeyed."""
    with ward.process() as process:
        process.parked.change(entry, replace(entry, found="ValueError: \x1b[2J[red]"))
    shown = sluice("show", entry.job, entry.key).stdout
    assert "\x1b[2J" not in shown
    assert "\\x1b[2J[red]" in shown


@pytest.fixture
def unnamed(ward):
    """A submission that nobody can name, and one that claims a job, both at the door."""
    entries = []
    with ward.process() as process:
        for claimed, body in ((NO_JOB, b'{"sluice":{"items":[]}}'), ("claimed-job", b"what is this")):
            delivery = Delivery(queue="submissions", message_id=ward.worlds[0].job, body=body, count=1)
            claim, why = at_the_door("submissions", body, delivery.message_id, claimed), "a copy"
            parking = Parking(process.parked, ward.clock, stages())
            entries.append(parking.park(ACCEPT, delivery, RefusedError("unnamed", why, "say it"), claim))
        yield entries
        for entry in entries:
            process.connections.tables.get_table_client("parked").delete_entity(entry.job, entry.key)


def test_what_claims_a_job_is_listed_and_shown_under_it(sluice, unnamed):
    """It lies at the door: `list` and `show` find it by the job that it says."""
    claimed = unnamed[1]
    (group,) = json.loads(sluice("list", "--job", "claimed-job", "--json").stdout)["groups"]
    assert group["entries"] == 1
    assert sluice("show", "claimed-job", claimed.key, "--body").stdout_bytes == b"what is this"
    with pytest.raises(NotParkedError):
        sluice("show", "another-job", claimed.key)


def test_a_submission_that_nobody_can_name_is_replayed_as_the_job_that_a_person_says(sluice, ward, unnamed):
    """Without the id nothing is sent; said once, it stays, and no other job takes it."""
    nameless, claimed = unnamed
    key = ["--key", nameless.key, "--patience", "0", "--yes"]
    assert sluice("replay", *key).stdout.splitlines()[-1] == "1 needs a job id"
    assert sluice("replay", *key, "--as", "No Job").exit_code == 2
    assert sluice("replay", "--key", claimed.key, "--patience", "0", "--yes", "--as", "mine").exit_code == 2
    assert sluice("replay", *key, "--as", "mine", "--dry-run").stdout.endswith("1 to replay, in waves of 1\n")
    sluice("replay", *key, "--as", "mine")
    with ward.process() as process:
        queue = process.connections.queues.get_queue_client("submissions")
        assert '{"sluice":{"items":[],"job":"mine"}}' in [one.content for one in queue.peek_messages(max_messages=32)]
        (entry,) = process.parked.claiming("mine")
        assert entry.key == door_key("submissions", b'{"sluice":{"items":[],"job":"mine"}}', "mine")
        process.connections.tables.get_table_client("parked").delete_entity(entry.job, entry.key)
        queue.clear_messages()


@pytest.fixture
def flood(ward, monkeypatch):
    """Five refused submissions of a room, of which the door keeps three: a function that returns what is known of them."""
    for name, number in (("MOST_OF_CAUSE", 3), ("_FREE", 1)):
        monkeypatch.setattr(overflow, name, number)
    queue = ward.process().connections.queues.get_queue_client("submissions-over")
    with suppress(ResourceExistsError):
        queue.create_queue()
    queue.clear_messages()
    fingerprint = secrets.token_hex(8)
    with ward.process() as process:
        for number in range(5):
            body = json.dumps({"sluice": {"job": f"flood-{number}", "mark": fingerprint}}).encode()
            entry = make_entry(
                f"accept-{fingerprint}-{number}",
                job=DOOR,
                queue=queue.queue_name,
                stage=ACCEPT,
                fingerprint=fingerprint,
                claimed=f"over~flood-{number}",
            )
            process.parked.park(entry, body)
    return SimpleNamespace(fingerprint=fingerprint, queue=queue)


def test_what_is_above_the_bound_at_the_door_is_counted_and_exported(sluice, flood):
    """Each line has the bytes, and says why they were refused. The beginning of a fingerprint is enough."""
    assert "3 and 2 more in 1 file" in sluice("list").stdout
    (group,) = (
        one for one in json.loads(sluice("list", "--json").stdout)["groups"] if one["fingerprint"] == flood.fingerprint
    )
    assert (group["entries"], group["over"], group["files"]) == (3, 2, 1)
    done = sluice("export", flood.fingerprint[:8], "--room", "over", "--why", "their publisher asks")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [json.loads(line["text"])["sluice"]["job"] for line in lines] == ["flood-3", "flood-4"]
    assert {line["reason"] for line in lines} == {"ZeroDivisionError"}
    other = sluice("export", flood.fingerprint, "--room", "-")
    assert (other.exit_code, other.stdout) == (1, "")
    assert "of room - has no messages above the bound at the door" in other.stderr


def test_what_is_above_the_bound_is_readmitted_to_its_queue(sluice, flood):
    """After its cause was mended. Then there is no file, and the list counts the entries alone."""
    done = sluice("readmit", flood.fingerprint, "--why", "mended", answer="y\n")
    assert "Put 2 messages of 1 file back on their queue?" in done.stderr
    assert done.stdout.endswith("2 are back on their queue\n")
    found = [json.loads(one.content)["sluice"]["job"] for one in flood.queue.receive_messages()]
    assert found == ["flood-3", "flood-4"]
    assert sluice("readmit", flood.fingerprint, "--yes").exit_code == 1
    (group,) = (
        one for one in json.loads(sluice("list", "--json").stdout)["groups"] if one["fingerprint"] == flood.fingerprint
    )
    assert (group["entries"], group["over"], group["files"]) == (3, 0, 0)


def test_a_cause_is_discarded_with_what_is_above_the_bound(sluice, flood):
    """The question names both numbers. A selection of one job leaves the files alone."""
    first = sluice("discard", flood.fingerprint, "--job", "over~flood-0", "--why", "x", "--yes")
    assert first.stdout == "1 of 1 discarded\n"
    done = sluice("discard", flood.fingerprint, "--why", "sent by mistake", answer="y\n")
    assert f"Discard 2 parked messages of {flood.fingerprint} and 2 more in 1 file for good?" in done.stderr
    assert done.stdout.endswith("2 of 2 discarded, and 2 in files\n")
    assert sluice("discard", flood.fingerprint, "--why", "x", "--yes").exit_code == 0
    assert flood.fingerprint not in sluice("list").stdout
