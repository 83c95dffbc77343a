"""The grammars of names: what they let through cannot leave its container, whatever a client does to paths."""

import re
from typing import Final

from shared.payload.reasons import Reason, refuse

#: Jobs, workloads and gates.
NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
#: A segment neither begins nor ends with a dot: `..` never gets through, and Azure drops dots at the end of a path.
_SEGMENT: Final = r"[A-Za-z0-9_](?:[A-Za-z0-9_.=+@,-]*[A-Za-z0-9_=+@,-])?"
BLOB: Final = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT}){{0,15}}")
SHA256: Final = re.compile(r"[0-9a-f]{64}")
LONGEST_BLOB: Final = 512


def check_job(job: str) -> str:
    """Return the job id, or refuse it."""
    if not NAME.fullmatch(job):
        raise refuse(Reason.BAD_JOB, f"the job is called {job[:120]!r}")
    return job


def check_name(kind: str, name: str) -> str:
    """Return the name of a workload or a gate, or refuse it."""
    if not NAME.fullmatch(name):
        raise refuse(Reason.BAD_NAME, f"the {kind} is called {name[:120]!r}")
    return name


def check_blob(name: str) -> str:
    """Return the name of a blob inside the payload container, or refuse it."""
    if len(name) > LONGEST_BLOB or not BLOB.fullmatch(name):
        raise refuse(Reason.BAD_BLOB_NAME, f"the blob is called {name[:120]!r}")
    return name


def payload_name(job: str, sha256: str) -> str:
    """Return what the blob of a job's payload is called: nobody else writes it, and nothing else is ever in it."""
    return f"{job}/{sha256}"
