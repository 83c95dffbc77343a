"""The flows to the seats of conferences: the commands of orders come by a lane, those of publishers by a call.

Counts the commands of orders that change no seats, and tells an operator of those that came too late.

Checks the seats of all conferences: reservations that should have ended, and balances that do not hold.

It only tells. A seat that it freed by itself might be sold twice.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from threading import Lock
from typing import Final

from capabilities.registration import events as order_events
from capabilities.registration.order_messages import SEATS_HOMES, Management, OrderCommand, read_seat_command, send_to
from capabilities.registration.parked_orders import ParkedOrders
from capabilities.registration.public_messages import OrderRoutes
from capabilities.registration.reasons import OrderReason
from capabilities.registration.seats import SeatsBalanceError, SeatsState, check_balance, contradict, overdue
from capabilities.registration.selling import (
    OutOfTurnError,
    Skip,
    decide,
    is_out_of_turn,
    make_seats_entry,
    skip_reason,
)
from shared.azure import FAILURES, BusSender
from shared.clock import Clock, all_tried
from shared.errors import BudgetSpentError, DuplicateError, NewerVersionError, NotPublishedError, RefusedError
from shared.processes import (
    MOST_COMMANDS,
    Command,
    Homes,
    Mementos,
    Receiver,
    Verdict,
    command_parcel,
    decode_commands,
    message_of,
    read_known,
)
from shared.refusals import refuse
from shared.telemetry import Telemetry, describe_error, tell
from shared.topology import BATCH_SECONDS
from shared.watch import TickNeeds


class SkippedCommands:
    """The skipped commands of one process. Several threads may use it."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry, self._lock = telemetry, Lock()
        self._untold: Counter[Skip] = Counter()

    def note(self, why: Skip) -> None:
        """Count one. A decision that is repeated counts again."""
        self._telemetry.add(order_events.SEATS_SKIPPED, why=why.value)
        # One that came twice is what a redelivery is for.
        if why is not Skip.KNOWN:
            with self._lock:
                self._untold[why] += 1

    def report(self) -> None:
        """Log how many came too late since the last time, in one line."""
        with self._lock:
            counts, self._untold = self._untold, Counter()
        if counts:
            tell(order_events.SEATS_LATE, late=counts[Skip.LATE], forgotten=counts[Skip.FORGOTTEN])


#: Commands that are saved between two reads of the clock: some transactions.
_AT_ONCE: Final = 4 * MOST_COMMANDS
#: A command that fails is sent again so often, each time later, and then parked.
MOST_ATTEMPTS: Final = 5
#: One of a newer version waits ten minutes for a newer instance, as all that is newer does.
ATTEMPTS_OF_NEWER: Final = 8
_FIRST_PAUSE: Final = timedelta(seconds=5)
#: Events of a conference that the hourly check names.
_MOST_SAID: Final = 3
#: So long a reserve waits for the one before it: longer than a killed process's messages are away.
_TURN_COMES_IN: Final = timedelta(seconds=60)


class SeatFlows:
    """The flows that end with a conference's seats."""

    def __init__(  # noqa: PLR0913, PLR0917 - the receiver, and what becomes of commands that it does not obey
        self,
        receiver: Receiver[SeatsState, Command],
        routes: OrderRoutes,
        sender: BusSender,
        parked: ParkedOrders,
        skipped: SkippedCommands,
        clock: Clock,
    ) -> None:
        self._receiver, self._routes, self._sender = receiver, routes, sender
        self._parked, self._skipped, self._clock = parked, skipped, clock
        #: By conference: since when reserves wait for their turn, in the clock's monotonic seconds.
        self._early: dict[str, float] = {}

    def sell(self, bodies: Sequence[bytes]) -> None:
        """Obey the commands of one session, in their order. Raises an error if they must come again."""
        bundles, newer = read_known(decode_commands, bodies)
        commands = in_turn([command for bundle in bundles for command in bundle])
        until = self._clock.monotonic() + BATCH_SECONDS
        early: dict[str, list[Command]] = {}
        for home, some in _by_receiver(commands):
            if self._clock.monotonic() >= until:
                raise BudgetSpentError(
                    f"could not begin {len(some)} commands to home {home!r} within {BATCH_SECONDS:.0f} s of "
                    f"{len(commands)}: they come again, and what was done changes nothing"
                )
            early.setdefault(home, []).extend(self._obey(home, some))
        for home, some in early.items():
            self._wait(home, some)
        if newer is not None:
            raise newer

    def _obey(self, home: str, commands: Sequence[Command]) -> list[Command]:
        """Obey these commands, and return those whose turn has not come."""
        saved = self._receiver.receive(home, commands)
        self._skipped.report()
        early: list[Command] = []
        for command, outcome in zip(commands, saved.outcomes, strict=True):
            if isinstance(outcome.error, OutOfTurnError):
                early.append(command)
            elif outcome.error is not None:
                self._put_off(command, outcome.error)
        return early

    def _wait(self, home: str, early: Sequence[Command]) -> None:
        """Let these come again. Raises OutOfTurnError, until they have waited too long: then the first one is obeyed."""
        now, left = self._clock.monotonic(), early
        if left and now - self._early.setdefault(home, now) >= _TURN_COMES_IN.total_seconds():
            head, *others = left
            tell(order_events.SEATS_OUT_OF_TURN, home=home, commands=len(left), after=head.body["after"])
            # Those behind it wait for its answer, which comes now.
            left = self._obey(home, [replace(head, body={**head.body, "after": ""}), *others])
            self._early.pop(home)
        if left:
            raise OutOfTurnError(
                f"could not obey {len(left)} reserves of home {home!r}: the order before the first of them, "
                f"{left[0].body['after']!r}, has no answer yet; they come again"
            )
        self._early.pop(home, None)

    def manage(self, message: Management) -> None:
        """Obey a command of a publisher at once. Raises RefusedError for one that its conference does not allow."""
        command = send_to(message.conference, message)
        (outcome,) = self._receiver.receive(command.to, [command]).outcomes
        error = outcome.error
        if isinstance(error, RefusedError):
            # It may have been obeyed before: seats that it removed then are not there to be removed again.
            error = self._find_obeyed(command) or error
        if isinstance(error, DuplicateError):
            if error.is_same:
                return
            raise refuse(OrderReason.ID_DIFFERS, f"{error.id!r} came to conference {message.conference!r} before")
        if error is not None:
            raise error

    def _find_obeyed(self, command: Command) -> DuplicateError | None:
        key, content = make_seats_entry(read_seat_command(command))
        noted = self._receiver.find_noted(command.to, key)
        if noted is None:
            return None
        return DuplicateError(f"{key!r} is in home {command.to!r}", id=key, is_same=noted == content)

    def _put_off(self, command: Command, error: Exception) -> None:
        """Send a copy of a command that failed, for later, or park it. Those behind it do not wait."""
        most = ATTEMPTS_OF_NEWER if isinstance(error, NewerVersionError) else MOST_ATTEMPTS
        if command.attempt < most and not isinstance(error, RefusedError):
            later = _FIRST_PAUSE * 2 ** (command.attempt - 1)
            self._send(replace(command, attempt=command.attempt + 1), later)
            return
        self._parked.park_command(command, error)

    def _send(self, command: Command, later: timedelta) -> None:
        queue = self._routes.queue_of(command)
        message = message_of([command_parcel(queue, command)])
        try:
            self._sender.send(queue, [message], at=self._clock.now() + later)
        except FAILURES as error:
            raise NotPublishedError(
                f"could not send command {command.id!r} to {queue} ({type(error).__name__}): its message comes again"
            ) from error


def decide_command(state: SeatsState, command: Command, clock: Clock, skipped: SkippedCommands) -> Verdict:
    """Decide a command as it came by the bus. One that changes nothing is counted."""
    asked, now = read_seat_command(command), clock.now()
    if isinstance(asked, OrderCommand):
        if why := skip_reason(state, asked, now):
            skipped.note(why)
        elif is_out_of_turn(state, asked):
            raise OutOfTurnError(f"order {asked.order!r} came before the one before it on the roll")
    return decide(state, asked, now)


def in_turn(commands: Sequence[Command]) -> list[Command]:
    """Return the commands in their order, but each behind the one whose order is answered before its own."""
    here, seen = {command.body.get("order") for command in commands}, set[str]()
    found: list[Command] = []
    waiting: dict[str, list[Command]] = {}
    for command in commands:
        after = command.body.get("after", "")
        if after in here and after not in seen:
            waiting.setdefault(after, []).append(command)
            continue
        ready = [command]
        while ready:
            found.append(ready.pop())
            order = found[-1].body.get("order", "")
            seen.add(order)
            ready += reversed(waiting.pop(order, []))
    return found + [command for some in waiting.values() for command in some]


def _by_receiver(commands: Sequence[Command]) -> Iterator[tuple[str, list[Command]]]:
    """Yield the commands by their receiver, some at a time. A session has one receiver."""
    groups: dict[str, list[Command]] = {}
    for command in commands:
        groups.setdefault(command.to, []).append(command)
    for home, some in groups.items():
        for begin in range(0, len(some), _AT_ONCE):
            yield home, some[begin : begin + _AT_ONCE]


class SeatCheck:
    """Checks the conferences of one installation."""

    def __init__(self, homes: Homes, seats: Mementos[SeatsState], clock: Clock, needs: TickNeeds) -> None:
        self._homes, self._seats, self._clock, self._needs = homes, seats, clock, needs

    def run(self, until: float) -> None:
        """Check each conference, in two requests. Begin none after `until`, in the clock's monotonic seconds."""
        # A conference that cannot be read stops no other. The first error is raised at the end, and the tick logs it.
        all_tried(self._checks(until), lambda _error: None)

    def _checks(self, until: float) -> Iterator[Callable[[], object]]:
        cursor: str | None = ""
        while cursor is not None:
            page = self._homes.heads(SEATS_HOMES, cursor)
            for home, _ in page.heads:
                if self._clock.monotonic() >= until:
                    return
                yield partial(self._check, home)
            cursor = page.cursor

    def _check(self, home: str) -> None:
        contradictions = list[str]()
        try:
            state = self._seats.read(
                home, lambda before, after, event: contradictions.extend(contradict(before, after, event))
            ).state
            types, error = check_balance(state), "; ".join(contradictions[:_MOST_SAID])
        except SeatsBalanceError as raised:
            state, types, error = SeatsState(), [], describe_error(raised)
        uneven = error or (f"the seats of {', '.join(types)} do not add up" if types else "")
        if uneven:
            tell(order_events.SEATS_UNEVEN, home=home, types=types, error=error)
        conference = home.removeprefix(SEATS_HOMES)
        self._needs.judge(order_events.SEATS_UNEVEN_NEED, conference, uneven)
        late = sorted(overdue(state, self._clock.now()))
        if late:
            tell(order_events.SEATS_OVERDUE, home=home, reservations=len(late), first=late[0])
        found = f"{len(late)} reservations hold seats past their window, the first of order {late[0]}" if late else ""
        self._needs.judge(order_events.SEATS_OVERDUE_NEED, conference, found, is_grave=False)
