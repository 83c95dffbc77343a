"""The steps of a migration as pure functions: from a pointer to the next one, or a refusal that says what to type."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from shared.errors import MigrationRefusedError
from shared.readmodels.pointers import ModelPointer, Phase

#: The command of `sluice migrate` that comes next, and its effect.
_NEXT: Final = {
    Phase.DOUBLING: ("start", "goes on with the build that was cut off"),
    Phase.BUILDING: ("start", "goes on with the build that was cut off"),
    Phase.BUILT: ("verify", "compares every row with the log; `finish` gives the new version up"),
    Phase.VERIFIED: ("switch", "lets readers use it"),
    Phase.SWITCHED: ("finish", "removes the former version; until then, `rollback` goes back to it"),
    Phase.ROLLED_BACK: ("switch", "lets readers use it again; `finish` gives it up"),
    Phase.FINISHING: ("finish", "goes on with the removal that was cut off"),
}
#: Phases in which no migration is at work.
_FREE = (Phase.NONE, Phase.DONE)
#: Phases in which the new version has all events. Either version may be the current one.
_COMPLETE = (Phase.BUILT, Phase.VERIFIED, Phase.SWITCHED, Phase.ROLLED_BACK)


def say_next(pointer: ModelPointer) -> str:
    """Return the command that comes next and its effect, or nothing: no migration is at work."""
    if pointer.phase not in _NEXT or pointer.target is None:
        return ""
    command, effect = _NEXT[pointer.phase]
    return f"{_line(command, pointer, pointer.target)}: {effect}"


def may_begin(pointer: ModelPointer, target: int) -> bool:
    """Check whether a migration to the target would be a new one. Raises MigrationRefusedError if it cannot be begun.

    False: that migration is at work already.
    """
    if pointer.phase is Phase.FINISHING:
        raise _refuse(
            pointer, "start", f"the former one is not finished: {_command('finish', pointer, pointer.target)}"
        )
    if pointer.phase not in _FREE:
        if pointer.target != target:
            raise _refuse(pointer, "start", f"one to version {pointer.target} is at work: finish it first")
        return False
    if pointer.current == target:
        raise _refuse(pointer, "start", f"version {target} is the current one")
    return True


def double(pointer: ModelPointer, target: int) -> ModelPointer:
    """Begin: live events go to the target as well. Its slot is empty."""
    may_begin(pointer, target)
    return replace(
        pointer, phase=Phase.DOUBLING, doubled=target, target=target, is_verified=False, cursor="", figures={}
    )


def build(pointer: ModelPointer) -> ModelPointer:
    """Begin to build, from the first page."""
    return replace(pointer, phase=Phase.BUILDING, cursor="", figures=MappingProxyType({"homes": 0, "events": 0}))


def advance(pointer: ModelPointer, cursor: str | None, homes: int, events: int) -> ModelPointer:
    """Count a page of heads whose homes are built. Without a further page, everything is built."""
    figures = {
        "homes": int(pointer.figures.get("homes", 0)) + homes,
        "events": int(pointer.figures.get("events", 0)) + events,
    }
    return replace(
        pointer, phase=Phase.BUILDING if cursor else Phase.BUILT, cursor=cursor or "", figures=MappingProxyType(figures)
    )


def demand_complete(pointer: ModelPointer, target: int) -> None:
    """Raise MigrationRefusedError unless the target has all events, so that comparing it makes sense."""
    _demand_target(pointer, "verify", target)
    if pointer.phase not in _COMPLETE:
        raise _refuse(pointer, "verify", f"it is not built yet: {_command('start', pointer, target)}")


def judge(pointer: ModelPointer, figures: Mapping[str, int | str], *, is_right: bool) -> ModelPointer:
    """Note the outcome of a comparison. Only a target without a difference may become the current version."""
    phases = {Phase.BUILT: Phase.VERIFIED} if is_right else {Phase.VERIFIED: Phase.BUILT}
    return replace(
        pointer,
        phase=phases.get(pointer.phase, pointer.phase),
        is_verified=is_right,
        figures=MappingProxyType({**pointer.figures, **figures}),
    )


def switch(pointer: ModelPointer, target: int) -> ModelPointer:
    """Make the target the current version. The pointer itself: it is so already."""
    _demand_target(pointer, "switch", target)
    if pointer.phase is Phase.SWITCHED:
        return pointer
    if pointer.phase not in (Phase.VERIFIED, Phase.ROLLED_BACK) or not pointer.is_verified:
        raise _refuse(pointer, "switch", f"it is not verified: {_command('verify', pointer, target)}")
    return replace(_swap(pointer), phase=Phase.SWITCHED)


def roll_back(pointer: ModelPointer, target: int) -> ModelPointer:
    """Make the former version the current one again. The pointer itself: it is so already."""
    _demand_target(pointer, "rollback", target)
    if pointer.phase is Phase.ROLLED_BACK:
        return pointer
    if pointer.phase is not Phase.SWITCHED:
        raise _refuse(pointer, "rollback", f"version {pointer.current} is still the current one")
    return replace(_swap(pointer), phase=Phase.ROLLED_BACK)


def end_doubling(pointer: ModelPointer, target: int) -> ModelPointer:
    """Begin to finish: live events go to the current version only. The pointer itself: it is so already.

    Before the switch, this gives the new version up. After it, the old one.
    """
    _demand_target(pointer, "finish", target)
    if pointer.phase in (Phase.FINISHING, Phase.DONE):
        return pointer
    return replace(pointer, phase=Phase.FINISHING, doubled=None)


def demand_unused(pointer: ModelPointer) -> None:
    """Raise MigrationRefusedError unless the other slot is free to be emptied: no version that is written has it."""
    if pointer.doubled is not None:
        raise _refuse(pointer, "empty a slot in", f"live events go to version {pointer.doubled} in it")


def end(pointer: ModelPointer) -> ModelPointer:
    """End the migration. The other slot is empty."""
    return replace(pointer, phase=Phase.DONE, is_verified=False, cursor="")


def _swap(pointer: ModelPointer) -> ModelPointer:
    if pointer.doubled is None:
        raise _refuse(pointer, "switch", "live events go to one version only, so the other one is behind")
    return replace(pointer, current=pointer.doubled, doubled=pointer.current, slot=pointer.slot.other)


def _demand_target(pointer: ModelPointer, step: str, target: int) -> None:
    if pointer.target is None:
        raise _refuse(pointer, step, f"no migration was begun: {_command('start', pointer, target)}")
    if pointer.target != target:
        raise _refuse(pointer, step, f"the migration leads to version {pointer.target}, not to {target}")


def _command(step: str, pointer: ModelPointer, target: int | None) -> str:
    return f"type `{_line(step, pointer, target)}`"


def _line(step: str, pointer: ModelPointer, target: int | None) -> str:
    return f"sluice migrate {step} {pointer.model} --to {target}"


def _refuse(pointer: ModelPointer, step: str, found: str) -> MigrationRefusedError:
    return MigrationRefusedError(
        f"could not {step} the migration of the read model {pointer.model!r}, whose phase is {str(pointer.phase)!r} and "
        f"whose current version is {pointer.current}: {found}"
    )
