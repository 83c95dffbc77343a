"""The files that pages load: a style, a script. Their address has their hash, so a browser keeps them for good."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Final

from werkzeug.exceptions import NotFound
from werkzeug.wrappers import Response

_FOLDER: Final = Path(__file__).parent / "static"
_KINDS: Final = MappingProxyType(
    {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
)
#: A year.
_FOR_GOOD: Final = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class StaticFile:
    """One file, with the first characters of its hash."""

    content: bytes
    kind: str
    version: str


@cache
def static_files() -> Mapping[str, StaticFile]:
    """Read the files, once in a process."""
    found = {}
    for file in sorted(_FOLDER.iterdir()):
        if file.suffix in _KINDS:
            content = file.read_bytes()
            found[file.name] = StaticFile(content, _KINDS[file.suffix], sha256(content).hexdigest()[:8])
    return MappingProxyType(found)


def address_of(name: str) -> str:
    """Return the path of a file below the console's root."""
    return f"/static/{static_files()[name].version}/{name}"


def serve(version: str, name: str) -> Response:
    """Return a file in the version that a page named."""
    known = static_files().get(name)
    if known is None or known.version != version:
        raise NotFound("there is no such file in this version of the console: load the page again")
    return Response(known.content, content_type=known.kind, headers={"Cache-Control": _FOR_GOOD})
