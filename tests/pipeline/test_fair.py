"""Whose chunk is next, and how large the window is: decisions over plain data."""

from collections import Counter
from math import inf

from shared.concurrency import FleetPace, RoomShare, Shares
from shared.pipeline.feeding.fair import (
    LEAST_WINDOW,
    Choice,
    Ring,
    Served,
    Terms,
    WaitingJob,
    agree_terms,
    count_hidden,
    next_rest,
    next_window,
    spread_hidden,
)


def job(name, left, seconds=1.0, put=0):
    """Return a job that waits."""
    return WaitingJob(name, left, put, seconds)


def test_a_room_that_comes_new_is_served_first_also_beside_a_room_with_long_chunks():
    """One chunk at least, whatever it takes."""
    ring, flood = Ring(), [job("flood", 400, 2.0)]
    assert ring.choose({"a": flood}, 5) == [Choice("flood", 5)]
    found = ring.choose({"a": flood, "b": [job("tiny", 1, 10.0)]}, 3)
    assert found == [Choice("tiny", 1, is_first=True), Choice("flood", 2)]


def test_a_room_that_comes_gets_a_chunk_beside_a_full_window_once_and_the_others_nothing():
    """Nor does a room that may have nothing keep the window open for others."""
    rooms = {"a": [job("flood", 400, 2.0)]}
    ring = Ring()
    ring.choose(rooms, 5)
    rooms |= {"b": [job("other", 400, 0.1)], "c": [job("tiny", 1, 0.1)], "d": [job("held", 9)]}
    held = {"d": Terms(most=0)}
    assert ring.choose(rooms, -40, held) == [Choice("tiny", 1, is_first=True), Choice("other", 1, is_first=True)]
    for _ in range(9):
        assert sum(one.chunks for one in ring.choose(rooms, -40, held)) <= 1
    assert not ring.choose(rooms, -40, held)


def test_rooms_share_by_seconds_of_work_and_not_by_chunks():
    """A room with ten times longer chunks gets a tenth of them."""
    ring, rooms, put = Ring(), {"a": [job("long", 9_000, 2.0)], "b": [job("short", 90_000, 0.2)]}, Counter()
    for _ in range(300):
        for choice in ring.choose(rooms, 7):
            put[choice.job] += choice.chunks
    assert abs(put["long"] * 2.0 - put["short"] * 0.2) < 5


def test_a_room_that_comes_back_before_the_others_had_their_turn_is_not_new():
    """Else one job after another would always be first."""
    ring, floods = Ring(), {name: [job(name, 400, 0.5)] for name in "abc"}
    ring.choose(floods, 3)
    order = []
    for number in range(4):
        [choice] = ring.choose({**floods, "d": [job(f"d{number}", 1, 0.5)]}, 1)
        order.append(choice.job)
    assert order == ["d0", "a", "b", "c"]


def test_debts_end_with_idleness():
    """A room that owed ten seconds, and came back after its jobs had ended, is served at once."""
    ring, flood = Ring(), [job("flood", 400)]
    ring.choose({"a": flood, "b": [job("b1", 1, 10.0)]}, 2)
    ring.choose({"a": flood}, 4)
    assert ring.choose({"a": flood, "b": [job("b2", 1, 10.0)]}, 1) == [Choice("b2", 1, is_first=True)]


def test_inside_a_room_small_jobs_pass_a_large_one_and_equal_ones_end_one_after_the_other():
    """By turns the oldest job and the oldest of which hardly anything was put."""
    jobs = [job("large", 400, put=8), *(job(f"small-{number}", 1) for number in range(3))]
    assert [choice.job for choice in Ring().choose({"a": jobs}, 6)] == [
        "large", "small-0", "large", "small-1", "large", "small-2",
    ]  # fmt: skip
    equal = [job(f"equal-{number}", 100, put=50) for number in range(3)]
    assert Ring().choose({"a": equal}, 100) == [Choice("equal-0", 100)]


def test_the_window_follows_the_front_of_the_queues_within_what_is_decided():
    """It grows where tasks find nothing, and falls to what ends where more waits than they need."""
    pace = FleetPace(decided=100, in_work=24, seconds=1.0)

    def after(window, visible, ended=0.0, rest=0.5):
        return next_window(window, visible=visible, ended=ended, pace=pace, rest=rest)

    assert after(LEAST_WINDOW, 0) == 2 * LEAST_WINDOW
    assert after(64, 3) == 96
    assert after(190, 0) == 200
    assert after(200, 32, ended=24) == 58
    assert after(58, 20, ended=24) == 58
    assert after(58, 32) == LEAST_WINDOW
    # A feeder that comes again later must leave more.
    assert after(290, 0, rest=2.0) == 300
    assert after(200, 32, ended=24, rest=2.0) == 87


def test_the_window_grows_by_what_ended_as_long_as_the_fleet_has_reported_nothing():
    """New processes have reported no seconds of a chunk: by the assumed ones it would stay small for twenty seconds."""
    unknown, sizes, window = FleetPace(decided=1, in_work=0), [], LEAST_WINDOW
    for _ in range(4):
        # All that was put half a second ago has ended.
        window = next_window(window, visible=0, ended=window / 0.5, pace=unknown, rest=0.5)
        sizes.append(window)
    assert sizes == [128, 512, 2048, 8192]
    assert next_window(64, visible=0, ended=0.0, pace=unknown, rest=0.5) == LEAST_WINDOW
    assert next_window(64, visible=0, ended=99.0, pace=FleetPace(1, 1, 1.0), rest=0.5) == LEAST_WINDOW
    assert (next_rest(1, unknown), next_rest(1, unknown, is_dry=True)) == (2.0, 0.5)


def test_who_has_room_puts_four_seconds_of_the_tasks_that_work():
    """Of a hundred decided tasks perhaps fourteen run. A cold fleet soon has some."""
    assert FleetPace(100, 24, 1.0).count_direct() == 4 * 48
    assert FleetPace(100, 100, 0.05).count_direct() == 80 * 100
    assert FleetPace(10, 0).count_direct() == 64
    assert FleetPace(100, 14, 10.0).count_direct() == 49


def test_small_jobs_have_a_chunk_and_a_finish_for_each_task_that_works():
    """However short their chunks are: what surrounds them takes its time."""
    assert FleetPace(100, 24, 0.01).count_small() == 48
    assert FleetPace(100, 0, 0.01).count_small() == 32
    assert FleetPace(40, 100).count_small() == 80


def test_what_hides_after_a_failure_is_seen_on_the_queues_where_a_report_is_late():
    """At an empty front each message is in the hands of a task, or hides. A report of before may count too many."""
    pace = FleetPace(12, 12, 2.0)
    assert count_hidden(0, depth=64, visible=0, pace=pace) == 52
    assert count_hidden(60, depth=64, visible=0, pace=pace) == 52
    # Not all that were decided may run, and then fewer hide than are counted here.
    assert count_hidden(60, depth=64, visible=0, pace=FleetPace(12, 4, 2.0)) == 60
    # While some wait, only reports say how many hide, and never more than are behind the front.
    assert count_hidden(10, depth=64, visible=20, pace=pace) == 10
    assert count_hidden(60, depth=64, visible=20, pace=pace) == 32
    # A task takes the short chunks of a second together.
    assert count_hidden(0, depth=130, visible=0, pace=FleetPace(12, 12, 0.1)) == 10
    assert count_hidden(0, depth=5, visible=0, pace=pace) == 0


def test_a_room_with_failures_may_have_those_that_no_report_tells_of():
    """One without a failure has none of them."""
    assert spread_hidden(17, {"failing": 3}) == {"failing": 17}
    assert spread_hidden(20, {"failing": 3, "other": 1, "well": 0}) == {"failing": 19, "other": 17}
    assert spread_hidden(2, {"failing": 3}) == {"failing": 3}
    for hidden, most in ((16, inf), (17, 0)):
        resting = spread_hidden(hidden, {"failing": 3})
        terms = agree_terms(["failing", "other"], Shares(), 32, resting, {})
        assert (terms["failing"].most, terms["other"].most) == (most, inf)


def test_the_feeder_rests_longer_where_few_tasks_have_long_chunks():
    """Its reads stay a small part of the requests."""
    assert next_rest(1, FleetPace(100, 100, 0.1)) == 0.5
    assert next_rest(1, FleetPace(100, 24, 0.7)) == 17 * 3 * 0.7 / 24
    assert next_rest(1, FleetPace(100, 24, 10.0)) == 5.0


def seconds_by_room(ring, rooms, terms=None, rounds=300, free=7):
    """Return the seconds of work that each job of one room was put, over so many rounds."""
    put = Counter()
    for _ in range(rounds):
        for choice in ring.choose(rooms, free, terms):
            put[choice.job] += choice.chunks
    seconds = {job.job: job.seconds for jobs in rooms.values() for job in jobs}
    return {name: chunks * seconds[name] for name, chunks in put.items()}


def test_a_room_of_weight_three_gets_three_times_the_seconds_of_work():
    """Whatever the chunks take: the quantum is the same for all."""
    rooms = {"a": [job("long", 9_000, 2.0)], "b": [job("short", 90_000, 0.2)]}
    for weights in ({"a": 3, "b": 1}, {"a": 1, "b": 3}):
        found = seconds_by_room(Ring(), rooms, {room: Terms(weight) for room, weight in weights.items()})
        assert 0.95 < found["long"] / weights["a"] / (found["short"] / weights["b"]) < 1.05


def test_a_room_at_its_limit_gets_nothing_and_keeps_its_place():
    """It saves nothing for later, and does not become new."""
    ring, rooms = Ring(), {name: [job(name, 400, 0.5)] for name in "abc"}
    assert [one.job for one in ring.choose(rooms, 3)] == ["a", "b", "c"]
    assert [one.job for one in ring.choose(rooms, 4, {"a": Terms(most=1)})] == ["a", "b", "c", "b"]
    assert [one.job for one in ring.choose(rooms, 4, {"b": Terms(most=0)})] == ["a", "c", "a", "c"]
    assert [one.job for one in ring.choose(rooms, 3)] == ["b", "a", "c"]


def test_all_rooms_at_their_limits_leave_the_window_free():
    """Nothing is chosen for its sake."""
    rooms = {name: [job(name, 400)] for name in "ab"}
    found = Ring().choose(rooms, 100, {"a": Terms(most=3), "b": Terms(most=0)})
    assert found == [Choice("a", 1, is_first=True), Choice("a", 2)]


def test_an_urgent_job_runs_ahead_by_a_share_of_its_rooms_part():
    """Also where its room is in debt, and an older job of the room waits."""
    ring, flood = Ring(), {"a": [job("a", 400)], "b": [job("b", 400)]}
    ring.choose(flood, 20)
    urgent = WaitingJob("urgent", 100, 0, 1.0, is_urgent=True)
    rooms, terms = {**flood, "b": [*flood["b"], urgent]}, {room: Terms(part=40, urgent=0.25) for room in "ab"}
    assert ring.choose(rooms, 10, terms) == [Choice("urgent", 10)]


def test_a_room_that_runs_ahead_gets_no_more_than_its_share():
    """What it took is paid by a part of its later turns, also if it was idle in between."""
    terms = {room: Terms(part=32, urgent=0.25) for room in "ab"}
    ring, a, b = Ring(), [job("a", 9_000, 0.5)], [job("b", 9_000, 0.5)]
    urgent = WaitingJob("urgent", 9_000, 0, 0.5, is_urgent=True)
    found = seconds_by_room(ring, {"a": a, "b": [*b, urgent]}, terms)
    assert abs(found["b"] + found["urgent"] - found["a"]) < 0.25 * 32 * 0.5 + 1
    assert found["b"] > found["urgent"] > 0.2 * found["a"]
    ring, put = Ring(), Counter()
    for number in range(600):
        # Its urgent jobs come one by one, and it is idle in between.
        single = [WaitingJob("u", 1, 0, 0.5, is_urgent=True)] if number % 2 else []
        for choice in ring.choose({"a": a, "b": single}, 2, terms):
            put[choice.job] += choice.chunks
    assert put["u"] <= put["a"]


def test_a_room_whose_messages_fail_gets_nothing_new():
    """Once as many of them rest as its part of the window has, which follows its weight."""
    shares = Shares(0.1, {"good": RoomShare(3, 50)})
    found = agree_terms(["bad", "good"], shares, 64, {"bad": 17}, {"good": 30})
    assert found == {"bad": Terms(1, 0, 16, 0.1), "good": Terms(3, 20, 48, 0.1)}
    found = agree_terms(["bad", "good"], shares, 64, {"bad": 16}, {"good": 70})
    assert found == {"bad": Terms(1, inf, 16, 0.1), "good": Terms(3, 0, 48, 0.1)}


def test_what_a_room_was_served_is_summed_up_over_a_minute():
    """What was put before does not count."""
    served = Served()
    for now, room in ((0.0, "a"), (50.0, "a"), (55.0, ""), (55.0, "a")):
        served.add(now, room, 2.5)
    assert served.sum_up(60.0) == {"a": 7.5, "": 2.5}
    assert served.sum_up(61.0) == {"a": 5.0, "": 2.5}
