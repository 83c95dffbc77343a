"""Documents for operators, made from homes: the story of an order, and the balance of a conference."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from shared.eventsourcing import Event, Home
from shared.messaging import Command
from shared.registration.order_process import is_stuck
from shared.registration.order_turn import OrderProcessState
from shared.registration.seats import Seats, SeatsState, check_balance, overdue


def tell_process(home: Home, state: OrderProcessState, commands: Sequence[Command], now: datetime) -> dict[str, Any]:
    """Return the causal story of an order: its events, the replies that it skipped, and the commands that it has sent.

    The row knows one write later what was sent. So the last commands may be shown as unsent although they are not.
    """
    return {
        "home": home.key,
        "version": home.head.version,
        "published": home.head.published,
        "stage": state.stage.value,
        "generation": state.generation,
        "applied": state.applied,
        "due": msgspec.to_builtins(state.due),
        "stuck": is_stuck(state, now),
        "inbox": sorted(home.inbox),
        "events": [_event(event) for event in home.events],
        "commands": [
            {"id": one.id, "kind": one.kind, "to": one.to, "generation": one.generation, "version": one.version}
            for one in commands
        ],
    }


def tell_seats(home: Home, now: datetime) -> dict[str, Any]:
    """Return the balance of a conference, folded from all its events, with the types for which it does not hold."""
    aggregate = Seats()
    state: SeatsState = aggregate.initial()
    for event in home.events:
        state = aggregate.fold(state, event)
    return {
        "home": home.key,
        "version": home.head.version,
        "types": {
            name: {
                "price": str(one.price),
                "quota": one.quota,
                "available": one.available,
                "reserved": one.reserved,
                "confirmed": one.confirmed,
            }
            for name, one in sorted(state.types.items())
        },
        "uneven": check_balance(state),
        "overdue": sorted(overdue(state, now)),
    }


def _event(event: Event) -> dict[str, Any]:
    return {
        "version": event.version,
        "at": msgspec.to_builtins(event.at),
        "kind": event.kind,
        "is_public": event.is_public,
        "command": event.command,
        "generation": event.generation,
        "body": event.body,
    }
