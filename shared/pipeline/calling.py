"""Calls into a workload: what it raises for the same partials it raises every time, so it is not tried again."""

from collections.abc import Iterator
from contextlib import contextmanager

from shared.errors import FinishRefusedError
from shared.parked.policy import Nature, nature_of
from shared.workloads import Line, Total
from shared.workloads.workload import AnyWorkload


@contextmanager
def calling(workload: AnyWorkload, call: str) -> Iterator[None]:
    """Turn what the workload raises into FinishRefusedError; an outage it may have met stays one."""
    try:
        yield
    except MemoryError:
        # Of this process, not of the partials: another one may have room.
        raise
    except Exception as error:
        if nature_of(error) is Nature.TRANSIENT:
            raise
        raise FinishRefusedError(
            f"workload {workload.name!r} failed in its {call}: {type(error).__name__}: {error}; "
            "correct it, deploy, then resume the job"
        ) from error


def items_of(workload: AnyWorkload, partial: object) -> Iterator[Total | Line]:
    """Yield what the workload's `finish` yields."""
    with calling(workload, "finish"):
        items = iter(workload.finish(partial))
    while True:
        with calling(workload, "finish"):
            item: object = next(items, None)
        if item is None:
            return
        if not isinstance(item, Total | Line):
            raise FinishRefusedError(
                f"workload {workload.name!r} yielded a {type(item).__name__} from its finish, expected Total or Line"
            )
        yield item
