"""The hostile submissions of tests/payload that a storage queue carries."""

import re
import sys

from tests.payload.hostile import Stage, cases

#: A queue's message is text within XML.
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MOST_BYTES = 64 * 1024


def sendable():
    """Yield every case that can be on a queue, and that is not for a workload of its own to reject."""
    for case in cases():
        if case.stage is not Stage.TRANSACTION and len(case.message) <= _MOST_BYTES and _is_text(case.message):
            yield case


def _is_text(message):
    try:
        text = message.decode()
    except UnicodeDecodeError:
        return False
    return bool(text.strip()) and not _NOT_IN_XML.search(text)


if __name__ == "__main__":
    sys.stdout.writelines(f"{case.name}: {case.reason}\n" for case in sendable())
