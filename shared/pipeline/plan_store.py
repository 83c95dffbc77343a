"""Plans as blobs where no publisher writes, each under the hash of its content: written once, never touched."""

import hashlib
from collections.abc import Callable

import msgspec
from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import BlobClient, ContainerClient

from shared.answers import expecting_an_answer
from shared.errors import PlanLostError
from shared.ledger.records import PlanBlob
from shared.payload.names import payload_name
from shared.pipeline.plan import Plan
from shared.topology import PLANS


class PlanStore:
    """Writes and reads the plans of jobs."""

    def __init__(self, container: Callable[[str], ContainerClient]) -> None:
        self._container = container

    def put(self, plan: Plan) -> PlanBlob:
        """Write the plan; a second write of the same plan finds the first one."""
        content = plan.encode()
        name = payload_name(plan.job, hashlib.sha256(content).hexdigest())
        blob = self._blob(PlanBlob(name, "", PLANS))
        with expecting_an_answer(f"write the plan of job {plan.job!r}"):
            try:
                written = blob.upload_blob(content, overwrite=False)
            except ResourceExistsError:
                # Somebody's, or our own with the reply lost: the name says that the content is the same.
                return PlanBlob(name, str(blob.get_blob_properties().etag), PLANS)
        return PlanBlob(name, str(written["etag"]), PLANS)

    def read(self, job: str, stored: PlanBlob) -> Plan:
        """Return the plan, proven by the hash in its name."""
        with expecting_an_answer(f"read the plan of job {job!r}"):
            try:
                content = self._blob(stored).download_blob().readall()
            except ResourceNotFoundError as missing:
                raise PlanLostError(f"the plan of job {job!r} is gone: there is no blob {stored.name!r}") from missing
        if payload_name(job, hashlib.sha256(content).hexdigest()) != stored.name:
            raise PlanLostError(f"the plan of job {job!r} was changed: blob {stored.name!r} does not have its hash")
        return msgspec.json.decode(content, type=Plan)

    def _blob(self, plan: PlanBlob) -> BlobClient:
        return self._container(plan.container).get_blob_client(plan.name)
