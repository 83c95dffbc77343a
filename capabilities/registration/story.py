"""Documents for operators, made from homes: the story of an order, and the balance of a conference."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from capabilities.registration.order_process import OrderProcessState, is_stuck
from capabilities.registration.seats import SeatsBalanceError, SeatsState, check_balance, contradict, fold, overdue
from shared.processes import Command, Event, Home, Proof, Sending


def tell_process(
    home: Home, state: OrderProcessState, unsent: Sequence[Command], sendings: Sequence[Sending], now: datetime
) -> dict[str, Any]:
    """Return the causal story of an order: its events, the replies that it skipped, and its commands.

    A write knows what was sent before it. So `sent_by` is the time of the first later write, and the commands of the
    last write have none yet.
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
        "commands": list(_commands(unsent, sendings)),
    }


def _commands(unsent: Sequence[Command], sendings: Sequence[Sending]) -> Iterator[dict[str, Any]]:
    known = set()
    for sending in sendings:
        sent_by = next((later.at for later in sendings if later.published >= sending.version), None)
        for command in sending.commands:
            known.add(command["id"])
            yield {
                **command,
                "version": sending.version,
                "decided_at": msgspec.to_builtins(sending.at),
                "sent_by": msgspec.to_builtins(sent_by),
            }
    # Of a home that an earlier version of Sluice wrote.
    for one in (one for one in unsent if one.id not in known):
        said = {"id": one.id, "kind": one.kind, "to": one.to, "generation": one.generation, "version": one.version}
        yield {**said, "decided_at": None, "sent_by": None}


def tell_seats(home: Home, proof: Proof, now: datetime) -> dict[str, Any]:
    """Return the balance of a conference, folded from all its events, with all that speaks against it.

    `uneven`: types for which it does not hold. `contradictions`: events that say other numbers. `changed`: events that are
    not as they were written, or are gone. `unproven`: ranges of events that no hash proves, as before the chain.
    """
    state, contradictions = _fold_all(home)
    return {
        "home": home.key,
        # Not `version`: that of a conference is the one that its customers read.
        "events": home.head.version,
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
        "contradictions": contradictions,
        "changed": list(proof.changed),
        "unproven": [list(ends) for ends in proof.unproven],
        "overdue": sorted(overdue(state, now)),
    }


def _fold_all(home: Home) -> tuple[SeatsState, list[str]]:
    """Return the state after the events, and what contradicts it. It ends before an event that does not fit."""
    state, found = SeatsState(), list[str]()
    for event in home.events:
        before = state
        try:
            state = fold(before, event)
        except (SeatsBalanceError, KeyError, ValueError) as error:
            kind = type(error).__name__
            return state, [*found, f"event {event.version} {event.kind!r} does not fit those before it ({kind})"]
        found += contradict(before, state, event)
    return state, found


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
