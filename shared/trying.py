"""Doing several things of which one that fails must not keep the others from being done."""

from collections.abc import Callable, Iterable
from typing import TypeVar

_Outcome = TypeVar("_Outcome")


def all_tried(acts: Iterable[Callable[[], _Outcome]], failed: Callable[[Exception], object]) -> list[_Outcome]:
    """Do everything and return what came of it; the first failure is raised when all was tried, each is told before."""
    outcomes: list[_Outcome] = []
    first: Exception | None = None
    for act in acts:
        try:
            outcomes.append(act())
        except Exception as error:  # noqa: BLE001 - whatever it is, what follows has no part in it
            failed(error)
            first = first or error
    if first is not None:
        raise first
    return outcomes
