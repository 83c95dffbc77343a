"""Leases on the slices of a gate: its many entries are released by several instances at the same time.

A lease only saves requests: entries that two instances release at the same time still count once. It lasts longer than
an invocation, so nothing renews it. An instance that is killed blocks its slice until the lease has ended.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from azure.core.exceptions import ResourceNotFoundError
from azure.storage.blob import ContainerClient

from shared.azure import expecting_an_answer, try_lease

#: A leading underscore is in no gate's name.
_PREFIX: Final = "_slice"


class Slices:
    """The leases of all gates, each on a blob of its own: a lease on the gate's blob would refuse its closing."""

    def __init__(self, container: ContainerClient) -> None:
        self._container = container

    @contextmanager
    def lease(self, gate: str, number: int) -> Iterator[bool]:
        """Enter with True and the lease, or with False while another process has it."""
        lease = None
        # Its last holder may have removed the blob just now: then there is hardly anything left to release.
        with expecting_an_answer(f"lease slice {number} of gate {gate!r}"), suppress(ResourceNotFoundError):
            lease = try_lease(self._container, f"{_PREFIX}-{number:02}-{gate}")
        if lease is None:
            yield False
            return
        try:
            yield True
        finally:
            lease.remove()
