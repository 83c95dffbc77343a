"""Tries at the properties of blobs."""

from typing import Any, Final

from azure.core import MatchConditions
from azure.storage.blob import BlobClient, BlobLeaseClient, ContainerClient

from tools.conformance.scene import DONE, CheckEntry, Scene, outcome

_UNCHANGED: Final = MatchConditions.IfNotModified
_CHANGED: Final = MatchConditions.IfModified
#: The shortest lease that the service gives, and a little more than that.
_LEASE: Final = 15
_LEASE_OVER: Final = 17.0
_MOST_PAGES: Final = 20


def _content(blob: BlobClient) -> bytes:
    content: bytes = blob.download_blob().readall()
    return content


def _blob(scene: Scene, name: str) -> BlobClient:
    container, prefix = scene.site.container()
    return container.get_blob_client(prefix + name)


def check_insert(scene: Scene) -> None:
    """Write a blob twice, each time as a new one."""
    blob, note = _blob(scene, "insert"), scene.notes.note
    blob.upload_blob(b"first", overwrite=False)
    second = outcome(lambda: blob.upload_blob(b"second", overwrite=False))
    note("blob.insert", "write a blob that is there, with If-None-Match: *", "refused with 409", second)
    note("blob.insert", "read it afterwards", b"first", _content(blob))


def check_condition(scene: Scene) -> None:
    """Write, read and delete with an ETag of before."""
    blob, note, key = _blob(scene, "condition"), scene.notes.note, "blob.condition"
    old = blob.upload_blob(b"first", overwrite=True)["etag"]
    new = blob.upload_blob(b"second", overwrite=True)["etag"]
    before: dict[str, Any] = {"etag": old, "match_condition": _UNCHANGED}
    now: dict[str, Any] = {"etag": new, "match_condition": _UNCHANGED}
    late = outcome(lambda: blob.upload_blob(b"late", overwrite=True, **before))
    note(key, "write with If-Match and the ETag before the last write", "refused with 412", late)
    note(key, "read afterwards", b"second", _content(blob))
    note(key, "read with that ETag", "refused with 412", outcome(lambda: blob.download_blob(**before).readall()))
    note(key, "delete with that ETag", "refused with 412", outcome(lambda: blob.delete_blob(**before)))
    note(key, "write with the ETag of now", DONE, outcome(lambda: blob.upload_blob(b"third", overwrite=True, **now)))


def check_etag(scene: Scene) -> None:
    """Write the same and other bytes, and compare the ETags."""
    blob = _blob(scene, "etag")
    tags = [blob.upload_blob(content, overwrite=True)["etag"] for content in (b"same", b"same", b"other")]
    scene.notes.note("blob.etag", "write a blob three times, two of them the same bytes", "3 ETags", _tags(tags))
    read = blob.get_blob_properties().etag
    scene.notes.note("blob.etag", "read its ETag", "that of the last write", _which(read, tags[-1]))


def _tags(tags: list[Any]) -> str:
    return f"{len(set(tags))} ETags"


def _which(read: Any, last: Any) -> str:
    return "that of the last write" if str(read).strip('"') == str(last).strip('"') else "another one"


def check_unchanged(scene: Scene) -> None:
    """Read a blob unless it is unchanged, before and after a write."""
    blob, tried = _blob(scene, "unchanged"), "read with If-None-Match and the ETag of"
    tag = blob.upload_blob(b"first", overwrite=True)["etag"]

    def read() -> None:
        blob.download_blob(etag=tag, match_condition=_CHANGED).readall()

    scene.notes.note("blob.unchanged", f"{tried} the last write", "refused with 304", outcome(read))
    blob.upload_blob(b"second", overwrite=True)
    scene.notes.note("blob.unchanged", f"{tried} the write before", DONE, outcome(read))


def check_range(scene: Scene) -> None:
    """Read some bytes in the middle and at the end."""
    blob, content = _blob(scene, "range"), bytes(range(256)) * 4
    blob.upload_blob(content, overwrite=True)
    for start, length in ((100, 50), (1000, 24)):
        scene.notes.note(
            "blob.range",
            f"read {length} bytes of {len(content)} from byte {start}",
            _piece(content[start : start + length]),
            _read_piece(blob, start, length),
        )


def _read_piece(blob: BlobClient, start: int, length: int) -> str:
    try:
        return _piece(blob.download_blob(start, length).readall())
    except ValueError as error:
        # The library's word for an answer whose headers are those of a whole blob.
        return f"an answer that is not of a range: {error}"


def _piece(content: bytes) -> str:
    return f"{len(content)} bytes from {content[:1].hex()} to {content[-1:].hex()}"


def check_listing(scene: Scene) -> None:
    """List blobs that were written in another order, in small pages."""
    container, prefix = scene.site.container()
    for number in (4, 1, 6, 0, 3, 5, 2):
        container.get_blob_client(f"{prefix}list/{number}").upload_blob(b"", overwrite=True)
    found = ", ".join(name.rpartition("/")[2] for name in _pages(container, f"{prefix}list/"))
    scene.notes.note("blob.listing", "list seven blobs in pages of three", "0, 1, 2, 3, 4, 5, 6", found)


def _pages(container: ContainerClient, folder: str) -> list[str]:
    found: list[str] = []
    for number, page in enumerate(container.list_blobs(name_starts_with=folder, results_per_page=3).by_page()):
        found += [blob.name for blob in page]
        if number == _MOST_PAGES:
            break
    return found


def check_batch(scene: Scene) -> None:
    """Delete two blobs in one request, one of which was written again."""
    container, prefix = scene.site.container()
    names = [f"{prefix}batch/{name}" for name in ("kept", "gone")]
    tags = [container.upload_blob(name, b"first", overwrite=True).get_blob_properties().etag for name in names]
    container.upload_blob(names[0], b"second", overwrite=True)
    rows: Any = [
        {"name": name, "etag": tag, "match_condition": _UNCHANGED} for name, tag in zip(names, tags, strict=True)
    ]
    replies = [reply.status_code for reply in container.delete_blobs(*rows, raise_on_any_failure=False)]
    scene.notes.note("blob.batch", "delete a blob that was written again, and one that was not", [412, 202], replies)
    left = [name.rpartition("/")[2] for name in _pages(container, f"{prefix}batch/")]
    scene.notes.note("blob.batch", "list both afterwards", ["kept"], left)


def check_lease(scene: Scene) -> None:
    """Lease a blob twice, write it without the lease, and let the lease end."""
    blob, note = _blob(scene, "lease"), scene.notes.note
    blob.upload_blob(b"first", overwrite=True)
    lease = blob.acquire_lease(_LEASE)
    tried = "refused with 409"
    note("blob.lease", "lease it while another one has it", tried, outcome(lambda: _take(blob)))
    write = outcome(lambda: blob.upload_blob(b"second", overwrite=True))
    note("blob.lease", "write it without the lease", "refused with 412", write)
    scene.pace.wait(_LEASE_OVER)
    # Without a renewal nothing refreshes the first lease, so it is over.
    note(
        "blob.lease_end", f"lease it {_LEASE_OVER:g} s after a lease of {_LEASE} s", DONE, outcome(lambda: _take(blob))
    )
    note("blob.lease_end", "renew the first lease after that", tried, outcome(lease.renew))
    # A leased blob cannot be removed, and the container need not be one of this run.
    BlobLeaseClient(blob).break_lease(0)


def _take(blob: BlobClient) -> BlobLeaseClient:
    return blob.acquire_lease(_LEASE)


CHECKS: Final = (
    CheckEntry(check_insert, ("blob.insert",)),
    CheckEntry(check_condition, ("blob.condition",)),
    CheckEntry(check_etag, ("blob.etag",)),
    CheckEntry(check_unchanged, ("blob.unchanged",)),
    CheckEntry(check_range, ("blob.range",)),
    CheckEntry(check_listing, ("blob.listing",)),
    CheckEntry(check_batch, ("blob.batch",)),
    CheckEntry(check_lease, ("blob.lease", "blob.lease_end")),
)
