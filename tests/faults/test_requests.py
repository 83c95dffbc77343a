"""Each scenario sends the requests that are written down."""

from tests.faults import campaign, requests


def test_every_scenario_sends_the_requests_that_are_written_down(in_memory, is_usual):
    """Method, entity and order; a change that is meant is written by `python -m tests.faults.requests`.

    In CI each one also goes on to its end, and nothing is lost or doubled. A usual run tries a third of them, and only the
    act: single faults go on to the end for some.
    """
    names = list(campaign.BY_NAME)
    assert names == list(in_memory)
    chosen = names[:: 3 if is_usual else 1]
    recorded = campaign.recorded(chosen, recovers=not is_usual)
    written = requests.read()
    assert requests.differences({name: written[name] for name in chosen}, recorded) == []


def test_a_request_more_less_or_elsewhere_is_a_difference():
    """The first one that differs is named; a scenario that one side does not have differs as well."""
    sites = {"a": [("accept", "GET jobs"), ("accept", "PUT jobs")], "b": [("settle", "GET jobs")]}
    written = requests.lines_of(sites)
    assert requests.differences(written, sites) == []
    asked = []

    def changed(name, *lines):
        return requests.differences(written | {name: list(lines)}, sites, lambda names: asked.append(names) or {})

    swapped = "a: request 1 of 2 was 'accept PUT jobs', is 'accept GET jobs' of 2"
    assert changed("a", "accept PUT jobs", "accept GET jobs") == [swapped]
    assert changed("a", "accept GET jobs") == ["a: request 2 of 1 was 'nothing', is 'accept PUT jobs' of 2"]
    assert changed("c", "accept GET jobs") == ["c: request 1 of 1 was 'accept GET jobs', is 'nothing' of 0"]
    assert asked == [["a"], ["a"]] * 2


def test_threads_that_change_places_once_are_no_difference():
    """A scenario that differs is recorded again; what differs each time is a difference."""
    sites, swapped = [{"a": [("accept", f"GET {name}") for name in order]} for order in ("xy", "yx")]
    written = requests.lines_of(sites)
    assert requests.differences(written, swapped, lambda names: {name: sites[name] for name in names}) == []
    assert len(requests.differences(written, swapped, lambda names: {name: swapped[name] for name in names})) == 1
