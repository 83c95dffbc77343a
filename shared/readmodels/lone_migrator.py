"""One migrator of a model at a time, by a lease on a blob."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from azure.storage.blob import ContainerClient

from shared.azure import LEASE_SECONDS, expecting_an_answer, try_lease
from shared.clock import Clock
from shared.errors import MigrationRefusedError

#: A lease that was renewed within this time is held for certain.
_RENEW_AFTER: Final = LEASE_SECONDS / 4


@contextmanager
def be_alone(container: ContainerClient, model: str, clock: Clock) -> Iterator[Callable[[], None]]:
    """Hold the lease of a model's migration during the block.

    Yields a function that renews the lease when it is time to, and raises MigrationRefusedError if it was lost. Call it
    before each act that another migrator must not do at the same time.
    """
    name = f"migrate-{model}"
    renewed = clock.monotonic()
    with expecting_an_answer(f"lease the blob {name!r}"):
        lease = try_lease(container, name)
    if lease is None:
        raise MigrationRefusedError(
            f"could not migrate the read model {model!r}: another process does, by the lease of the blob {name!r}. "
            f"If that process has died, its lease ends within {LEASE_SECONDS} seconds: type the command again then"
        )

    def demand() -> None:
        nonlocal renewed
        now = clock.monotonic()
        if now - renewed < _RENEW_AFTER:
            return
        if not lease.renew():
            raise MigrationRefusedError(
                f"could not go on with the migration of the read model {model!r}: the lease of the blob {name!r} was lost, "
                "perhaps to another process; type the command again, it goes on where this one ended"
            )
        renewed = now

    try:
        yield demand
    finally:
        lease.release()
