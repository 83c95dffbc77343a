"""Plans as blobs beside the payload they cut, each under the hash of its content: written once, never touched."""

import hashlib

import msgspec
from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import ContainerClient

from shared.answers import expecting_an_answer
from shared.errors import PlanLostError
from shared.ledger.records import PlanBlob
from shared.payload.names import payload_name
from shared.pipeline.plan import Plan


class PlanStore:
    """Writes and reads the plans of jobs."""

    def __init__(self, payloads: ContainerClient) -> None:
        self._payloads = payloads

    def put(self, plan: Plan) -> PlanBlob:
        """Write the plan; a second write of the same plan finds the first one."""
        content = plan.encode()
        name = payload_name(plan.job, hashlib.sha256(content).hexdigest())
        blob = self._payloads.get_blob_client(name)
        with expecting_an_answer(f"write the plan of job {plan.job!r}"):
            try:
                written = blob.upload_blob(content, overwrite=False)
            except ResourceExistsError:
                # Somebody's, or our own with the reply lost: the name says that the content is the same.
                return PlanBlob(name, str(blob.get_blob_properties().etag))
        return PlanBlob(name, str(written["etag"]))

    def read(self, job: str, stored: PlanBlob) -> Plan:
        """Return the plan, proven by the hash in its name."""
        with expecting_an_answer(f"read the plan of job {job!r}"):
            try:
                content = self._payloads.get_blob_client(stored.name).download_blob().readall()
            except ResourceNotFoundError as missing:
                raise PlanLostError(f"the plan of job {job!r} is gone: there is no blob {stored.name!r}") from missing
        if payload_name(job, hashlib.sha256(content).hexdigest()) != stored.name:
            raise PlanLostError(f"the plan of job {job!r} was changed: blob {stored.name!r} does not have its hash")
        return msgspec.json.decode(content, type=Plan)
