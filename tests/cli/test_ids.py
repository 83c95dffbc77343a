"""`sluice ids`, against real blobs."""

import json


def test_numbers_drawn_one_after_another_never_repeat(sluice):
    """Each call is a process of its own, and each number is new."""
    drawn = [int(sluice("ids", "next", "cli-order").stdout) for _ in range(3)]
    assert len(set(drawn)) == 3


def test_a_block_has_no_gaps(sluice):
    """`--count` gives adjoining numbers, one a line."""
    lines = sluice("ids", "next", "cli-block", "--count", "25").stdout.split()
    first = int(lines[0])
    assert [int(line) for line in lines] == list(range(first, first + 25))


def test_a_drawn_number_has_a_story(sluice):
    """Who held it and when can be asked afterwards, as a sentence and as JSON."""
    number = sluice("ids", "next", "cli-story").stdout.strip()
    told = json.loads(sluice("ids", "explain", "cli-story", number, "--json").stdout)
    assert (told["number"], told["fate"]) == (int(number), "handed out")
    assert told["reservation"]["node"] in sluice("ids", "explain", "cli-story", number).stdout


def test_a_number_that_nobody_drew_is_said_to_be_free(sluice):
    """The story of a number above all drawn ones is that it is not reserved."""
    sluice("ids", "next", "cli-free")
    assert "not reserved" in sluice("ids", "explain", "cli-free", "999999").stdout


def test_the_status_shows_the_next_number_and_the_last_changes(sluice):
    """What the next process will get, and who came before it."""
    number = int(sluice("ids", "next", "cli-status").stdout)
    said = json.loads(sluice("ids", "status", "cli-status", "--json").stdout)
    assert said["next"] > number
    assert {"reserved"} <= {event["kind"] for event in said["events"]}
    assert f"is {said['next']}" in sluice("ids", "status", "cli-status").stdout


def test_a_sequence_nobody_used_is_a_problem_not_a_number(sluice):
    """A misspelt sequence is noticed, and looking at it does not create it."""
    for _ in range(2):
        done = sluice("ids", "status", "cli-misspelt")
        assert (done.returncode, "check its spelling" in done.stderr) == (1, True)


def test_storage_that_is_down_is_one_line(sluice, stack_settings):
    """No traceback: what was tried, and what to do."""
    gone = stack_settings | {
        "SluiceStorage": "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=YQ==;BlobEndpoint=http://127.0.0.1:9/a;"
    }
    done = sluice("ids", "next", "cli-down", settings=gone)
    assert done.returncode == 1
    assert done.stderr.startswith("sluice: ")
    assert done.stderr.count("\n") == 1
