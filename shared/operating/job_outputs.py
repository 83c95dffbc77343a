"""Reads the outputs of a job as lines: its output, its rejected transactions with their reasons, its totals.

The parts are streamed and unpacked as they come, so a job of any size can be read.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import IO, Any, Final, cast

import zstandard
from azure.data.tables import EntityProperty
from azure.storage.blob import ContainerClient

from shared.azure import expecting_an_answer
from shared.ledger import Job, JobState
from shared.pipeline import Outputs, TotalsTable

#: States in which a job has outputs.
WRITTEN: Final = frozenset({JobState.COMPLETE, JobState.COMPLETED_WITH_PARKED})
#: Bytes unpacked at a time.
_STEP: Final = 1024 * 1024
_OWN: Final = frozenset({"PartitionKey", "RowKey"})


class OutputKind(StrEnum):
    """The kinds of lines that a job has made."""

    OUTPUT = "output"
    REJECTED = "rejected"
    TOTALS = "totals"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputReader:
    """Reads what the finish of a job wrote."""

    outputs: ContainerClient
    totals: TotalsTable

    def read(self, job: Job, kind: OutputKind) -> Iterator[bytes]:
        """Yield the bytes of newline-delimited JSON. One request for the list, and one for each part or page."""
        return self._read_totals(job) if kind is OutputKind.TOTALS else self._read_parts(job, kind)

    def _read_parts(self, job: Job, kind: OutputKind) -> Iterator[bytes]:
        folder = f"{job.job}/{job.revision}"
        for part in Outputs(self.outputs, job.job, job.revision).parts():
            if part.name.startswith(f"{kind.value}-"):
                yield from self._unpack(f"{folder}/{part.name}")

    def _unpack(self, name: str) -> Iterator[bytes]:
        with expecting_an_answer(f"read output {name!r}"):
            content = self.outputs.download_blob(name)
            with zstandard.ZstdDecompressor().stream_reader(
                cast("IO[bytes]", content), read_across_frames=True
            ) as unpacked:
                while piece := unpacked.read(_STEP):
                    yield piece

    def _read_totals(self, job: Job) -> Iterator[bytes]:
        for row in self.totals.rows(job.job, job.revision):
            yield json.dumps({name: _plain(value) for name, value in row.items() if name not in _OWN}).encode() + b"\n"


def _plain(value: Any) -> Any:
    # A whole number beyond 32 bits comes as a value with its type.
    return value.value if isinstance(value, EntityProperty) else value
