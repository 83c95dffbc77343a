"""Inputs that once failed: kept as small as they could be made, and tried again by the tests."""

import base64
import json
from pathlib import Path

FILE = Path(__file__).with_name("corpus.json")
#: Tries for one input; what is not found to be needless by then stays.
MOST_TRIES = 400


def entries():
    """Return every entry: target, what it did, and the parts of the case."""
    return [(one["target"], one["was"], tuple(map(_bytes, one["parts"]))) for one in json.loads(FILE.read_text())]


def keep(found):
    """Add (target, what it does, parts) of cases that fail; those that are there already stay once."""
    known = json.loads(FILE.read_text()) if FILE.exists() else []
    for target, was, parts in found:
        entry = {"target": target, "was": was, "parts": [_text(part) for part in parts]}
        if entry["parts"] not in [one["parts"] for one in known]:
            known.append(entry)
    FILE.write_text(json.dumps(known, indent=1) + "\n")


def _text(part):
    # What is text can be read by whoever looks at it.
    text = part.decode("ascii", "replace")
    return {"text": text} if text.encode("ascii", "replace") == part else {"base64": base64.b64encode(part).decode()}


def _bytes(written):
    return written["text"].encode() if "text" in written else base64.b64decode(written["base64"])


def smaller(parts, fails):
    """Take away whatever the failure does not need: halves first, then less and less, of one part after the other."""
    parts, tries = list(parts), 0
    for number in range(len(parts)):
        size = max(1, len(parts[number]) // 2)
        while size and tries < MOST_TRIES:
            at = 0
            while at < len(parts[number]) and tries < MOST_TRIES:
                rest = parts[number][:at] + parts[number][at + size :]
                tries += 1
                if fails((*parts[:number], rest, *parts[number + 1 :])):
                    parts[number] = rest
                else:
                    at += size
            size //= 2
    return tuple(parts)
