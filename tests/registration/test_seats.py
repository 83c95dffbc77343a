"""The seats of a conference: what is granted, what comes twice or late, and that every seat is in one place."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

import pytest

from capabilities.registration.order_messages import (
    AddSeats,
    Cancel,
    Confirm,
    RemoveSeats,
    Reserve,
    SeatType,
    SetConference,
    read_seat_command,
    send_to,
)
from capabilities.registration.seats import (
    KEPT_FOR,
    KnownReservation,
    KnownReservations,
    ReservationEnding,
    Seats,
    SeatsBalanceError,
    check_balance,
    contradict,
    overdue,
)
from capabilities.registration.selling import Skip, decide, skip_reason
from shared.errors import RefusedError
from shared.processes import Event

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
END = NOON + timedelta(minutes=15)
LATE = END + timedelta(seconds=1)
SEATS = Seats()


def reserve(order, generation=1, **seats):
    """Return a reserve."""
    return Reserve(
        order=order, generation=generation, not_after=END, seats=seats or {"full": 2}, id=f"{order}-{generation}"
    )


def cancel(order, generation=2):
    """Return a cancel."""
    return Cancel(order=order, generation=generation, not_after=END, id=f"{order}-{generation}")


def confirm(order, generation=2):
    """Return a confirm."""
    return Confirm(order=order, generation=generation, not_after=END, id=f"{order}-{generation}")


def offer(id_="c1", **quotas):
    """Return a conference with these quotas."""
    return SetConference(
        conference="c", id=id_, seats={name: SeatType(Decimal("5.00"), n) for name, n in quotas.items()}
    )


def follow(state, *commands, now=NOON):
    """Return the state after commands, and the events that they made."""
    made = []
    for command in commands:
        for event in decide(state, command, now).events:
            state = SEATS.fold(state, replace(event, version=len(made) + 1))
            made.append(event)
    return state, made


def conference(**quotas):
    """Return a conference with these quotas."""
    return follow(SEATS.initial(), offer(**quotas))[0]


def numbers(state, name="full"):
    """Return the available, reserved and confirmed seats of a type."""
    one = state.types[name]
    return one.available, one.reserved, one.confirmed


def refused(state, command):
    """Return the reason of the refusal."""
    with pytest.raises(RefusedError) as found:
        decide(state, command, NOON)
    return found.value.reason


def test_a_reservation_gets_what_is_free_and_its_event_says_all():
    """Order, command, generation, what was granted, and what remains of every type that it touched."""
    state, _ = follow(conference(full=3, half=5), reserve("a"))
    state, (event,) = follow(state, reserve("b", full=2, half=2))
    assert event.body == {
        "order": "b",
        "granted": {"full": 1, "half": 2},
        "remaining": {"full": 0, "half": 3},
        "not_after": "2026-11-22T12:15:00Z",
    }
    assert (event.kind, event.command, event.generation, event.is_public) == ("seats_reserved", "b-1", 1, True)
    assert (numbers(state), numbers(state, "half")) == ((0, 3, 0), (3, 2, 0))


def test_a_later_generation_replaces_the_former_and_moves_the_difference():
    """Also to fewer seats and to other types; what it held counts as free for it."""
    state, _ = follow(conference(full=3, half=2), reserve("a", full=3))
    state, (event,) = follow(state, reserve("a", 2, full=2, half=1))
    assert event.body["remaining"] == {"full": 1, "half": 1}
    state, (event,) = follow(state, reserve("a", 3, half=2))
    assert (event.body["granted"], event.body["remaining"]) == ({"half": 2}, {"full": 3, "half": 0})
    assert (numbers(state), numbers(state, "half")) == ((3, 0, 0), (0, 2, 0))


@pytest.mark.parametrize(
    "again", [reserve("a"), reserve("a", 2), cancel("a"), confirm("a")], ids=lambda one: type(one).__name__
)
def test_a_generation_that_is_known_changes_nothing(again):
    """Doubled or overtaken, before and after the end of the reservation."""
    for last in (cancel("a", 2), confirm("a", 2), reserve("a", 2)):
        state, _ = follow(conference(full=3), reserve("a"), last)
        assert (decide(state, again, NOON).events, skip_reason(state, again, NOON)) == ((), Skip.KNOWN)


def test_a_grant_of_nothing_leaves_its_generation():
    """A double of it would hold seats for an order that was rejected."""
    state, (event,) = follow(conference(full=0), reserve("a"))
    assert event.body["granted"] == {"full": 0}
    state, _ = follow(state, AddSeats(conference="c", id="1", seats={"full": 5}))
    assert follow(state, reserve("a"))[1] == []
    assert follow(state, reserve("a", 2))[1][0].body["granted"] == {"full": 2}


def test_an_end_that_comes_first_keeps_its_generation():
    """The reserve that it overtook changes nothing then. The event is no news for subscribers."""
    for end in (cancel("a"), confirm("a")):
        state, (event,) = follow(conference(full=3), end)
        assert (event.kind, event.is_public, event.generation) == ("generation_kept", False, 2)
        assert follow(state, reserve("a"))[1] == []
        assert numbers(state) == (3, 0, 0)


def test_an_end_that_comes_first_counts_for_ten_minutes_after_the_window():
    """As long as its reserve could still come."""
    state = conference(full=3)
    assert [event.kind for event in decide(state, cancel("a"), END + KEPT_FOR).events] == ["generation_kept"]
    late = END + KEPT_FOR + timedelta(seconds=1)
    assert (decide(state, cancel("a"), late).events, skip_reason(state, cancel("a"), late)) == ((), Skip.FORGOTTEN)


def test_a_tombstone_lasts_until_ten_minutes_after_the_window():
    """Then a reserve is late anyway, and an end of an unknown reservation changes nothing."""
    state, _ = follow(conference(full=3), reserve("a"), cancel("a"))
    for now, skip in ((END + KEPT_FOR, Skip.KNOWN), (END + KEPT_FOR + timedelta(seconds=1), Skip.FORGOTTEN)):
        assert skip_reason(state, cancel("a", 2), now) is skip
    forgotten = END + KEPT_FOR + timedelta(seconds=1)
    assert decide(state, cancel("a", 3), forgotten).events == ()
    assert skip_reason(state, reserve("a"), forgotten) is Skip.LATE


def test_a_reserve_after_the_window_changes_nothing_and_an_end_does():
    """Seats must get free, however late the cancel is."""
    state, _ = follow(conference(full=3), reserve("a"))
    assert follow(state, reserve("b"), reserve("a", 2), now=LATE)[1] == []
    assert skip_reason(state, reserve("b"), LATE) is Skip.LATE
    assert skip_reason(state, reserve("b"), END) is None
    state, _ = follow(state, cancel("a"), now=END + timedelta(days=3))
    assert numbers(state) == (3, 0, 0)


def test_sold_seats_stay_sold():
    """Even a command of a later generation, which no order sends, does not move them."""
    state, (_, event) = follow(conference(full=3), reserve("a"), confirm("a"))
    assert (event.body["confirmed"], event.body["remaining"]) == ({"full": 2}, {"full": 1})
    assert follow(state, cancel("a", 3), reserve("a", 4, full=1))[1] == []
    assert numbers(state) == (1, 0, 2)
    assert state.reservations.get("a").held == {}


def test_an_unknown_type_is_refused_and_the_held_seats_stay():
    """The order ends the reservation by the next generation; the refused one is known."""
    state, _ = follow(conference(full=3), reserve("a"))
    state, (event,) = follow(state, reserve("a", 2, full=1, vip=1))
    assert (event.kind, event.body["reason"], event.body["types"]) == (
        "reservation_refused",
        "unknown_seat_type",
        ["vip"],
    )
    assert numbers(state) == (1, 2, 0)
    assert follow(state, reserve("a", 2))[1] == []
    assert numbers(follow(state, cancel("a", 3))[0]) == (3, 0, 0)


def test_an_unknown_conference_refuses_every_reservation():
    """Its home has no events yet; the refusal is its first."""
    _, (event,) = follow(SEATS.initial(), reserve("a"))
    assert (event.kind, event.body["reason"]) == ("reservation_refused", "unknown_conference")


def test_a_conference_gets_types_and_prices_and_keeps_its_quotas():
    """The quota of a known type must be the one that it has."""
    state, _ = follow(conference(full=3), reserve("a"))
    prices = SetConference(
        conference="c", id="2", seats={"full": SeatType(Decimal("9.00"), 3), "half": SeatType(Decimal("2.00"), 7)}
    )
    state, (event,) = follow(state, prices)
    assert event.body["seats"] == {
        "full": {"price": "9.00", "quota": 3, "remaining": 1},
        "half": {"price": "2.00", "quota": 7, "remaining": 7},
    }
    assert (state.types["full"].price, numbers(state)) == (Decimal("9.00"), (1, 2, 0))
    assert refused(state, offer("3", full=4)) == "quota_differs"


def test_quotas_grow_and_shrink_by_seats_that_are_available():
    """Never by seats that somebody has; an unknown type or conference is refused."""
    state, _ = follow(conference(full=3), reserve("a"))
    state, (event,) = follow(state, AddSeats(conference="c", id="1", seats={"full": 2}))
    assert (event.kind, event.body) == (
        "seats_added",
        {"seats": {"full": 2}, "quota": {"full": 5}, "remaining": {"full": 3}},
    )
    state, (event,) = follow(state, RemoveSeats(conference="c", id="2", seats={"full": 3}))
    assert (event.kind, event.body["quota"], event.body["remaining"]) == ("seats_removed", {"full": 2}, {"full": 0})
    assert refused(state, RemoveSeats(conference="c", id="3", seats={"full": 1})) == "seats_taken"
    assert refused(state, AddSeats(conference="c", id="4", seats={"vip": 1})) == "unknown_seat_type"
    assert refused(SEATS.initial(), AddSeats(conference="c", id="5", seats={"vip": 1})) == "unknown_conference"


def test_a_publishers_command_is_known_by_its_id_and_content():
    """An order's command is known by its generation, and needs no row."""
    add = AddSeats(conference="c", id="1", seats={"full": 2})
    state = conference(full=3)
    (first,) = decide(state, add, NOON).inbox.items()
    assert first[0] == "seats:1"
    assert [first] == list(decide(state, add, NOON).inbox.items())
    assert first[1] != decide(state, replace_struct(add, seats={"full": 3}), NOON).inbox["seats:1"]
    assert decide(state, reserve("a"), NOON).inbox == {}


def replace_struct(command, **changes):
    """Return the command with other fields."""
    return type(command)(**{name: changes.get(name, getattr(command, name)) for name in command.__struct_fields__})


@pytest.mark.parametrize(
    "event",
    [
        Event(kind="seats_reserved", body={"order": "b", "granted": {"full": 4}, "remaining": {}, "not_after": "2026-11-22T12:15:00Z"}, at=NOON),
        Event(kind="reservation_confirmed", body={"order": "a", "confirmed": {"full": 3}, "remaining": {}, "not_after": "2026-11-22T12:15:00Z"}, at=NOON),
        Event(kind="seats_removed", body={"seats": {"full": 2}, "quota": {}, "remaining": {}}, at=NOON),
        Event(kind="order_expired", body={}, at=NOON),
    ],
    ids=lambda event: event.kind,
)  # fmt: skip
def test_an_event_that_does_not_add_up_stops_the_conference(event):
    """Better no sale than a seat twice."""
    state, _ = follow(conference(full=3), reserve("a"))
    with pytest.raises(SeatsBalanceError, match=event.kind):
        SEATS.fold(state, event)


def test_the_balance_is_proven_from_the_reservations():
    """One by one, which finds what the numbers alone would not show."""
    state, _ = follow(
        conference(full=9, half=4), reserve("a"), reserve("b"), confirm("b"), reserve("c", half=1), cancel("c")
    )
    assert check_balance(state) == []
    lost = replace(state, reservations=KnownReservations({"b": state.reservations.get("b")}))
    assert check_balance(lost) == ["full"]
    doubled = replace(
        state,
        reservations=state.reservations.put(
            "d", KnownReservation(1, END, {"half": 1}, ReservationEnding.CONFIRMED), NOON
        ),
    )
    assert check_balance(doubled) == ["half"]


def test_an_event_says_the_numbers_that_all_events_make():
    """Those of a correct writer do, whatever happened; one that says others is named with both."""
    state, made = SEATS.initial(), []
    commands = [
        offer(full=9, half=4),
        offer("c2", full=9, vip=1),
        reserve("a"),
        reserve("a", 2, full=1, half=1),
        reserve("b"),
        confirm("b"),
        cancel("a", 3),
        cancel("gone", 5),
        reserve("x", vip=3),
        AddSeats(conference="c", seats={"full": 5}, id="s1"),
        RemoveSeats(conference="c", seats={"half": 2}, id="s2"),
    ]
    for command in commands:
        for event in decide(state, command, NOON).events:
            after = SEATS.fold(state, event)
            assert list(contradict(state, after, event)) == []
            made.append((state, after, event))
            state = after
    lies = set()
    for before, after, event in made:
        for name in {"quota", "remaining", "released", "confirmed"} & event.body.keys():
            for of, number in event.body[name].items():
                lie = replace(event, body={**event.body, name: {**event.body[name], of: number + 1}})
                (found,) = contradict(before, after, lie)
                assert repr(event.kind) in found
                lies.add((event.kind, name))
    assert {kind for kind, _ in lies} == {
        "seats_reserved", "reservation_confirmed", "reservation_cancelled", "seats_added", "seats_removed",
    }  # fmt: skip
    (before, after, first), *_ = made
    offered = {**first.body["seats"]["full"], "quota": 8}
    lie = replace(first, body={"seats": {**first.body["seats"], "full": offered}})
    assert list(contradict(before, after, lie)) == [
        "event 0 'conference_set' says 8 quota of 'full', the events make 9 quota"
    ]


def test_a_reservation_without_an_end_is_overdue_after_ten_minutes_and_stays():
    """It is shown and never freed; one that holds nothing is not meant."""
    state, _ = follow(conference(full=5), reserve("a"), reserve("b"), cancel("b"), reserve("c"), confirm("c"))
    state, _ = follow(state, reserve("d"))
    assert list(overdue(state, END + KEPT_FOR)) == []
    assert list(overdue(state, END + KEPT_FOR + timedelta(seconds=1))) == ["a", "d"]


def test_a_state_is_kept_and_read_again():
    """It decides as before, whatever was in which part of its memory."""
    state, _ = follow(conference(full=500), *(reserve(f"o{n}") for n in range(150)), cancel("o3"), confirm("o4"))
    again = SEATS.unpack(SEATS.pack(state))
    assert (again.types, dict(again.reservations.pairs())) == (state.types, dict(state.reservations.pairs()))
    for command in (reserve("o3"), cancel("o3", 3), confirm("o4"), reserve("o5", 2, full=9), reserve("new")):
        assert decide(again, command, NOON) == decide(state, command, NOON)


def test_a_state_never_changes_in_place():
    """A decision that was not stored leaves no trace in the state that it was made on."""
    states = [conference(full=500)]
    for number in range(200):
        states.append(follow(states[-1], reserve(f"o{number}", full=1))[0])
    for number, (before, after) in enumerate(pairwise(states)):
        assert before.reservations.get(f"o{number}") is None
        assert after.reservations.get(f"o{number}") is not None
        assert numbers(before) == (500 - number, number, 0)


def test_a_decision_reads_one_reservation_and_an_event_copies_few():
    """However many there are: an addition copies about a hundredth of them at most, and a merge is rare."""
    many = KnownReservations({f"o{n}": KnownReservation(1, END, {"full": 1}) for n in range(20_000)})

    class OneByOne(KnownReservations):
        def pairs(self):
            raise AssertionError("a decision must not go through all reservations")

    state = replace(conference(full=9), reservations=OneByOne(many.large))
    assert decide(state, reserve("new"), NOON).events
    merges = largest = 0
    for number in range(2_000):
        after = many.put(f"n{number}", KnownReservation(1, END, {"full": 1}), NOON)
        merges, largest = merges + (after.large is not many.large), max(largest, len(after.small))
        many = after
    assert largest <= 22_000 // 64
    assert merges <= 2_000 // (20_000 // 64)


def test_ended_reservations_are_forgotten_in_time_and_open_ones_never():
    """So the state of a conference is as large as what is open, and what ended lately."""
    ended = {f"o{n}": KnownReservation(2, END, ending=ReservationEnding.CANCELLED) for n in range(500)}
    many = KnownReservations({**ended, "open": KnownReservation(1, END, {"full": 1})})
    for number in range(200):
        many = many.put(
            f"n{number}",
            KnownReservation(1, END + timedelta(hours=1), {"full": 1}),
            END + KEPT_FOR + timedelta(seconds=1),
        )
    left = dict(many.pairs())
    assert len(left) == 201
    assert left["open"].holds_seats


@pytest.mark.parametrize(
    "command",
    [reserve("a", 3), cancel("a"), confirm("a"), offer(full=3), AddSeats(conference="c", id="1", seats={"full": 1})],
    ids=lambda one: type(one).__name__,
)
def test_a_command_travels_by_the_bus_and_back(command):
    """The bus may drop a late reserve only: an end that was dropped would hold seats for good."""
    sent = send_to("c", command)
    assert read_seat_command(sent) == command
    assert sent.to == "seats-c"
    assert sent.not_after == (END if isinstance(command, Reserve) else None)
    assert sent.generation == getattr(command, "generation", 0)
