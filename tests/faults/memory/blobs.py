"""The blob service, as far as Sluice uses it."""

import re
import urllib.parse
from dataclasses import dataclass, replace
from xml.sax.saxutils import escape

from requests.structures import CaseInsensitiveDict

from tests.faults.memory.reply import Asked, Reply, http_date, refusal

_PART = re.compile(rb"DELETE (\S+) HTTP/1.1\r\n(.*?)\r\n\r\n", re.DOTALL)
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


@dataclass(frozen=True)
class _Blob:
    content: bytes
    metadata: dict
    type: str
    etag: str
    changed: str
    kind: str = "BlockBlob"
    #: The id of its lease, which ends when somebody breaks it: nobody here waits for a minute.
    lease: str = ""
    is_broken: bool = False

    @property
    def lease_state(self):
        """Its name in a listing."""
        return "broken" if self.is_broken else "leased" if self.lease else "available"


class Blobs:
    """Containers with block blobs, and blobs that only grow."""

    def __init__(self, storage, containers):
        self._storage = storage
        self.content = {name: {} for name in containers}

    def put(self, container, name, content, metadata, content_type):
        """Put a blob there."""
        self.content[container][name] = _Blob(content, metadata, content_type, **self._version())

    def answer(self, asked):
        """Answer one request."""
        container, _, name = asked.path.partition("/")
        if not container:
            return self._containers()
        blobs = self.content.get(container)
        if not name and asked.method == "PUT":
            return self._create(container)
        if blobs is None:
            return refusal(404, "ContainerNotFound")
        if not name and asked.method == "DELETE":
            del self.content[container]
            return Reply(202)
        if not name:
            is_batch = asked.query.get("comp") == "batch"
            return self._batch(asked) if is_batch else _listed(container, blobs, asked.query)
        refused = _condition(blobs.get(name), asked) or _lease_condition(blobs.get(name), asked)
        return refused or getattr(self, f"_{asked.method.lower()}")(blobs, name, asked)

    def _containers(self):
        changed = (
            f"<Properties><Last-Modified>{http_date(self._storage.now)}</Last-Modified><Etag>0x0</Etag></Properties>"
        )
        named = "".join(f"<Container><Name>{name}</Name>{changed}</Container>" for name in sorted(self.content))
        text = (
            f'<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Containers>{named}</Containers><NextMarker />'
            "</EnumerationResults>"
        )
        return Reply(200, text.encode(), {"Content-Type": "application/xml"})

    def _create(self, container):
        if container in self.content:
            return refusal(409, "ContainerAlreadyExists")
        self.content[container] = {}
        return Reply(201, headers={"ETag": '"0x0"', "Last-Modified": http_date(self._storage.now)})

    def _batch(self, asked):
        """Answer each request by itself: unlike rows, blobs do not change together."""
        replies = [self.answer(one) for one in _parts(asked.body)]
        parts = "".join(
            f"--batchresponse_b\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\n"
            f"HTTP/1.1 {reply.status} {reply.reason}\r\n"
            + "".join(f"{name}: {value}\r\n" for name, value in reply.headers.items())
            + f"\r\n{reply.body.decode()}\r\n"
            for number, reply in enumerate(replies)
        )
        headers = {"Content-Type": "multipart/mixed; boundary=batchresponse_b"}
        return Reply(202, f"{parts}--batchresponse_b--\r\n".encode(), headers)

    def _put(self, blobs, name, asked):
        found = blobs.get(name)
        if asked.query.get("comp") == "metadata":
            if found is None:
                return refusal(404, "BlobNotFound")
            blobs[name] = replace(found, metadata=_metadata(asked), **self._version())
            return Reply(200, headers=_headers(blobs[name]))
        if asked.query.get("comp") == "appendblock":
            return self._append(blobs, name, asked)
        if asked.query.get("comp") == "lease":
            return _leased(blobs, name, asked)
        if "comp" in asked.query:
            raise NotImplementedError(asked.query)
        content_type = asked.headers.get("x-ms-blob-content-type", "application/octet-stream")
        kind = asked.headers["x-ms-blob-type"]
        blobs[name] = _Blob(asked.body, _metadata(asked), content_type, kind=kind, **self._version())
        return Reply(201, headers=_headers(blobs[name]))

    def _append(self, blobs, name, asked):
        found = blobs.get(name)
        if found is None:
            return refusal(404, "BlobNotFound")
        if found.kind != "AppendBlob":
            return refusal(409, "InvalidBlobType")
        blobs[name] = replace(found, content=found.content + asked.body, **self._version())
        return Reply(201, headers=_headers(blobs[name]))

    def _head(self, blobs, name, _asked):
        found = blobs.get(name)
        if found is None:
            return replace(refusal(404, "BlobNotFound"), body=b"")
        return Reply(200, headers={**_headers(found), "Content-Length": str(len(found.content))})

    def _get(self, blobs, name, asked):
        found = blobs.get(name)
        if found is None:
            return refusal(404, "BlobNotFound")
        wanted = _RANGE.fullmatch(asked.headers.get("x-ms-range") or asked.headers.get("range") or "")
        if not wanted:
            return Reply(200, found.content, _headers(found))
        first, last = int(wanted[1]), int(wanted[2] or len(found.content) - 1)
        # Azurite answers the byte after the last with nothing, where Azure refuses; nobody here asks for it.
        if first > len(found.content) or not found.content:
            return refusal(416, "InvalidRange")
        part = found.content[first : last + 1]
        place = f"bytes {first}-{first + len(part) - 1}/{len(found.content)}"
        return Reply(206, part, {**_headers(found), "Content-Range": place})

    def _delete(self, blobs, name, _asked):
        return Reply(202) if blobs.pop(name, None) else refusal(404, "BlobNotFound")

    def _version(self):
        return {"etag": f'"0x{self._storage.version():X}"', "changed": http_date(self._storage.now)}


def _parts(body):
    """Yield the requests of a batch: each deletes a blob."""
    for found in _PART.finditer(body):
        lines = (line.partition(":") for line in found[2].decode().splitlines())
        headers = CaseInsensitiveDict((name.strip(), value.strip()) for name, _, value in lines)
        # Without the account, unlike the address of a request of its own.
        path = urllib.parse.unquote(urllib.parse.urlsplit(found[1].decode()).path.removeprefix("/"))
        yield Asked("DELETE", path, {}, headers, b"")


def _condition(found, asked):
    unless, only = asked.headers.get("If-None-Match"), asked.headers.get("If-Match")
    if unless == "*" and found is not None:
        return refusal(409, "BlobAlreadyExists")
    if only is not None and (found is None or only not in {"*", found.etag}):
        return refusal(412, "ConditionNotMet")
    return None


def _lease_condition(found, asked):
    if found is None or asked.query.get("comp") == "lease" or asked.method in {"GET", "HEAD"}:
        return None
    given = asked.headers.get("x-ms-lease-id", "")
    if not found.lease or found.is_broken:
        return refusal(412, "LeaseNotPresentWithBlobOperation") if given else None
    if not given:
        return refusal(412, "LeaseIdMissing")
    return None if given == found.lease else refusal(412, "LeaseIdMismatchWithBlobOperation")


def _leased(blobs, name, asked):
    found, action = blobs.get(name), asked.headers["x-ms-lease-action"]
    if found is None:
        return refusal(404, "BlobNotFound")
    if action == "break":
        if not found.lease:
            return refusal(409, "LeaseNotPresentWithLeaseOperation")
        blobs[name] = replace(found, is_broken=True)
        return Reply(202, headers={**_headers(found), "x-ms-lease-time": "0"})
    if action in {"renew", "release"}:
        return _lease_kept(blobs, name, asked)
    if action != "acquire":
        raise NotImplementedError(action)
    mine = asked.headers["x-ms-proposed-lease-id"]
    if found.lease not in {"", mine} and not found.is_broken:
        return refusal(409, "LeaseAlreadyPresent")
    blobs[name] = replace(found, lease=mine, is_broken=False)
    return Reply(201, headers={**_headers(found), "x-ms-lease-id": mine})


def _lease_kept(blobs, name, asked):
    """Renew or release a lease: its holder's id tells."""
    found, action = blobs[name], asked.headers["x-ms-lease-action"]
    if found.lease != asked.headers["x-ms-lease-id"]:
        return refusal(409, "LeaseIdMismatchWithLeaseOperation")
    if action == "release":
        blobs[name] = replace(found, lease="", is_broken=False)
        return Reply(200, headers=_headers(blobs[name]))
    if found.is_broken:
        return refusal(409, "LeaseIsBrokenAndCannotBeRenewed")
    return Reply(200, headers={**_headers(found), "x-ms-lease-id": found.lease})


def _headers(found):
    metadata = {f"x-ms-meta-{name}": value for name, value in found.metadata.items()}
    fixed = {
        "ETag": found.etag,
        "Last-Modified": found.changed,
        "Content-Type": found.type,
        "x-ms-blob-type": found.kind,
    }
    return {**fixed, **metadata}


def _metadata(asked):
    prefix = "x-ms-meta-"
    return {name[len(prefix) :]: value for name, value in asked.headers.items() if name.lower().startswith(prefix)}


def _listed(container, blobs, query):
    if query.get("comp") != "list":
        return Reply(201)
    prefix = query.get("prefix", "")
    entries = "".join(
        f"<Blob><Name>{escape(name)}</Name><Properties><Last-Modified>{blob.changed}</Last-Modified>"
        f"<Etag>{escape(blob.etag)}</Etag><Content-Length>{len(blob.content)}</Content-Length>"
        f"<Content-Type>{escape(blob.type)}</Content-Type><BlobType>{blob.kind}</BlobType>"
        f"<LeaseState>{blob.lease_state}</LeaseState></Properties><Metadata>"
        + "".join(f"<{key}>{escape(value)}</{key}>" for key, value in blob.metadata.items())
        + "</Metadata></Blob>"
        for name, blob in sorted(blobs.items())
        if name.startswith(prefix)
    )
    text = (
        f'<?xml version="1.0" encoding="utf-8"?><EnumerationResults ContainerName="{container}"><Prefix>{escape(prefix)}'
        f"</Prefix><Blobs>{entries}</Blobs><NextMarker /></EnumerationResults>"
    )
    return Reply(200, text.encode(), {"Content-Type": "application/xml"})
