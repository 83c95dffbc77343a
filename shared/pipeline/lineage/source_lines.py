"""Makes the payload of a job from the output lines of others, and the totals that it must prove.

The manifest of each source names its parts with their hashes and lines, and what the source accepted. So the job declares as
many transactions as lines were made, and the sums that were accepted. Lines are framed as those of any file.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from io import BytesIO
from typing import Final

from azure.core.exceptions import ResourceNotFoundError
from azure.storage.blob import ContainerClient

from shared.azure import expecting_an_answer
from shared.grammar import ZERO, amounts, plus, room_of
from shared.ledger import Job
from shared.memory import Memory
from shared.payload import Codec, Declared, Intake, Limits, PayloadStores, SourceFiles, of_sources
from shared.pipeline.lineage.succession import Made
from shared.pipeline.outputs import PART_BYTES, Manifest, OutputPart, Outputs
from shared.pipeline.plan import ChunkSizes, plan_of
from shared.refusals import Reason, refuse
from shared.zstd import ZstdFile

#: Bytes unpacked at a time.
_STEP: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Source:
    """The lines that a job takes of one source."""

    job: Job
    manifest: Manifest
    parts: tuple[OutputPart, ...]

    @property
    def items(self) -> int:
        return sum(part.items for part in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLines:
    """Reads what the sources of a job made. One per process."""

    outputs: ContainerClient
    stores: PayloadStores
    #: The workloads of this installation, each with the fields that it adds up.
    sums: Mapping[str, Collection[str]]
    limits: Limits
    sizes: ChunkSizes
    memory: Memory

    def __call__(self, job: Job, sources: Mapping[str, Job], /) -> Made:
        """Return the plan over the lines of the sources, and their totals. Refuse what cannot be taken or proven."""
        taken = [self._open(job, sources[name]) for name in job.sources]
        items, most = sum(one.items for one in taken), self.limits.items_most
        if items > most:
            raise refuse(
                Reason.TOO_MANY_ITEMS,
                f"its sources have {items:,} lines, a job takes {most:,}: one job for each source",
            )
        if not items:
            raise refuse(Reason.EMPTY, "its sources have no lines")
        declared = {own: self._prove(own, theirs, taken) for own, theirs in _sums_of(job).items()}
        intake = Intake(room_of(job.job), self.stores, self.limits, self.sizes.least)
        with self.memory.hold(of_sources(items, self.sizes.least, PART_BYTES, self.limits)):
            payload = intake.frame_again(self._unpack(taken), Codec.PLAIN, job.job.rpartition("~")[2])
            if payload.index.items != items:
                raise refuse(
                    Reason.COUNT_MISMATCH, f"its sources say {items:,} lines, there are {payload.index.items:,}"
                )
            plan = plan_of(job.job, job.workload, payload, self.sizes.of(job.workload, items), self.limits)
        return Made(
            plan, Declared(items, {**job.declared, **declared}), {one.job.job: one.job.revision for one in taken}
        )

    def _open(self, job: Job, source: Job) -> _Source:
        manifest = Outputs(self.outputs, source.job, source.revision).read_manifest()
        if manifest is None:
            raise refuse(Reason.PAYLOAD_MISSING, f"the outputs of {source.job} at revision {source.revision} are gone")
        kinds: tuple[str, ...] = tuple(SourceFiles)
        if wanted := job.from_jobs and job.from_jobs.files:
            kinds = (wanted,)
        found = {kind: tuple(part for part in manifest.parts if part.name.startswith(f"{kind}-")) for kind in kinds}
        # Never both: a line may tell of the same as an output does.
        parts = found.get(SourceFiles.LINES) or found.get(SourceFiles.OUTPUT, ())
        if not parts and manifest.accepted.items:
            raise refuse(
                Reason.EMPTY,
                f"{source.job} accepted {manifest.accepted.items:,} transactions and wrote no {' or '.join(kinds)} files: "
                f"its workload {manifest.workload} makes none",
            )
        return _Source(source, manifest, parts)

    def _prove(self, own: str, theirs: str, taken: Iterable[_Source]) -> Decimal:
        total = ZERO
        for one in taken:
            manifest = one.manifest
            known = {*self.sums.get(manifest.workload, ()), *manifest.declared, *manifest.accepted.sums}
            if theirs not in known:
                raise refuse(
                    Reason.UNKNOWN_SUM,
                    f"{own} is the sum of {theirs}, which {one.job.job} ({manifest.workload}) does not add up",
                )
            if manifest.accepted.unknown:
                raise refuse(Reason.UNKNOWN_SUM, f"the sum of {theirs} of {one.job.job} is not proven there")
            total = plus({"": total}, {"": amounts(manifest.accepted.sums).get(theirs, ZERO)}).get("", ZERO)
        return total

    def _unpack(self, taken: Iterable[_Source]) -> Iterator[bytes]:
        for one in taken:
            for part in one.parts:
                name = f"{one.job.job}/{one.job.revision}/{part.name}"
                content = self._read(name)
                if hashlib.sha256(content).hexdigest() != part.sha256:
                    raise refuse(Reason.HASH_MISMATCH, f"output {name!r} does not have the hash in its manifest")
                with ZstdFile(BytesIO(content)) as unpacked:
                    while piece := unpacked.read(_STEP):
                        yield piece

    def _read(self, name: str) -> bytes:
        with expecting_an_answer(f"read output {name!r}"):
            try:
                # Not by the transport, which knows zstd only on some versions of Python.
                content: bytes = self.outputs.download_blob(name, decompress=False).readall()
            except ResourceNotFoundError as missing:
                raise refuse(Reason.PAYLOAD_MISSING, f"output {name!r} is gone") from missing
        return content


def _sums_of(job: Job) -> Mapping[str, str]:
    return job.from_jobs.sums if job.from_jobs else {}
