"""What follows from observations, without any service."""

from threading import Event, Thread

from azure.core.exceptions import HttpResponseError, ResourceNotFoundError

from tests.waiting import LIMIT, until
from tools.conformance import Observation, State, judge
from tools.conformance.belongings import Belongings
from tools.conformance.judgement import at_least

KEY = "blob.insert"


def test_one_wrong_try_is_enough():
    """The first that went otherwise is named, also if something stood in the way later."""
    tries = [
        Observation(KEY, "first", "a", "a"),
        Observation(KEY, "second", "a", "b"),
        Observation(KEY, "third", "a", "c"),
    ]
    (finding,) = judge([KEY], tries, {KEY: "no answer"}, "")
    assert (finding.state, finding.tried, finding.expected, finding.found) == (State.BROKEN, "second", "a", "b")


def test_an_obstacle_after_good_tries_leaves_it_unchecked():
    """The rest was not tried."""
    (finding,) = judge([KEY], [Observation(KEY, "first", "a", "a")], {KEY: "no answer"}, "")
    assert (finding.state, finding.why) == (State.UNCHECKED, "no answer")


def test_a_property_without_a_try_does_not_hold_by_silence():
    """It is unchecked, with the reason of the whole run."""
    findings = judge([KEY, "blob.etag"], [Observation(KEY, "first", "a", "a")], {}, "interrupted")
    assert [(one.state, one.why) for one in findings] == [(State.HOLDS, ""), (State.UNCHECKED, "interrupted")]


def test_a_number_that_may_be_higher():
    """It is compared as text, so both sides say the same."""
    assert [at_least(found, 5) for found in (4, 5, 6)] == ["4", "5 or more", "5 or more"]


def test_what_cannot_be_removed_is_named_and_what_is_gone_is_not():
    """Each belonging is tried, whatever became of the others."""
    belongings, removed = Belongings(), []

    def fail(error):
        raise error

    belongings.keep("queue", "stays", lambda: fail(HttpResponseError("it is busy\nand more")))
    belongings.keep("queue", "gone", lambda: fail(ResourceNotFoundError("no such queue")))
    belongings.keep("table", "there", lambda: removed.append("there"))
    belongings.keep("table", "never made", lambda: removed.append("never made"))
    belongings.forget("table", "never made")
    left = belongings.remove()
    assert [(one.kind, one.name, one.why) for one in left] == [("queue", "stays", "it is busy")]
    assert removed == ["there"]


def test_a_place_that_is_being_made_is_removed_after_that():
    """Before, there would be nothing to remove, and it would stay."""
    belongings, entered, ready, events = Belongings(), Event(), Event(), []

    def make():
        entered.set()
        assert ready.wait(LIMIT)
        events.append("made")

    def remove_all():
        belongings.remove()
        events.append("over")

    maker = Thread(target=belongings.make, args=("queue", "q", make, lambda: events.append("removed")))
    remover = Thread(target=remove_all)
    maker.start()
    assert entered.wait(LIMIT)
    remover.start()
    until(lambda: belongings.is_over)
    assert events == []
    ready.set()
    maker.join(LIMIT)
    remover.join(LIMIT)
    assert events == ["made", "removed", "over"]


def test_a_second_interruption_names_what_is_left():
    """The person is told, and the run ends."""
    belongings = Belongings()

    def interrupt():
        raise KeyboardInterrupt

    belongings.keep("container", "big", interrupt)
    assert [(one.name, one.why) for one in belongings.remove()] == [("big", "interrupted while removing")]
