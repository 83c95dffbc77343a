"""Names of jobs and rooms: what no publisher can say, and what joins and comes apart again."""

import pytest
from hypothesis import given, strategies as st

from shared.errors import RefusedError
from shared.grammar import LONGEST_ROOM, NAME, check_job, is_job, is_room, room_job, room_of

JOBS = st.from_regex(NAME, fullmatch=True)
ROOMS = st.from_regex(r"[a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,3}", fullmatch=True).filter(is_room)
COMMON = st.just("")


@given(ROOMS | COMMON, JOBS)
def test_a_room_and_a_job_join_to_an_id_that_says_the_room(room, job):
    """Whatever a publisher calls its job, the id inside names the room of its queue and no other."""
    inside = room_job(room, job)
    assert is_job(inside)
    assert room_of(inside) == room


@given(ROOMS | COMMON, JOBS, ROOMS | COMMON, JOBS)
def test_two_rooms_never_share_a_job(room, job, other, others):
    """The same id inside means the same room and the same name."""
    assert (room_job(room, job) == room_job(other, others)) == ((room, job) == (other, others))


@given(ROOMS, JOBS)
def test_a_publisher_cannot_say_the_job_of_a_room(room, job):
    """An id of a room is refused in a submission, and so is everything else with the character that joins."""
    with pytest.raises(RefusedError):
        check_job(room_job(room, job))


@pytest.mark.parametrize(
    "text",
    [
        *("", "~", "~x", "r~", "r~~x", "r~q~x", "R~x", "-r~x", "r-~x", "r--s~x", "poison~x", "a-poison~x", "r_s~x"),
        *("r~X", "r~x/y", "~none", "~door", "~attempts", "r~x\n", "x\n"),
        *(f"{'r' * (LONGEST_ROOM + 1)}~x", f"r~{'x' * 101}"),
    ],
)
def test_what_is_no_job_inside_is_told(text):
    """Nothing but a name behind at most one room; the partitions of what has no job are none either."""
    assert not is_job(text)


@pytest.mark.parametrize("text", ["a", "1", "a-b-c", "team-42", "poisonous", "poison-a", "r" * LONGEST_ROOM])
def test_rooms_are_small_letters_digits_and_single_hyphens(text):
    """They are parts of the names of queues and containers."""
    assert is_room(text)


@pytest.mark.parametrize(
    "text", ["", "-a", "a-", "a--b", "A", "a_b", "a.b", "poison", "a-poison", "r" * 41, "ä", "a\n"]
)
def test_what_no_queue_or_container_can_be_called_is_no_room(text):
    """A queue that ends like the host's poison queues would have none of its own."""
    assert not is_room(text)
