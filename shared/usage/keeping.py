"""Keeps a process's diary from a thread of its own, so that no stage has to think of it."""

import threading
from typing import Final

from shared.errors import SluiceError
from shared.telemetry import events
from shared.telemetry.event import tell
from shared.telemetry.failure import told
from shared.usage.diary import Diary

#: Seconds between two looks at the count, which cost nothing.
LOOK_EVERY: Final = 5.0
#: Seconds after a note that was refused: each attempt is a request too.
AFTER_FAILURE: Final = 300.0


def keep(diary: Diary, stop: threading.Event | None = None) -> threading.Thread:
    """Start noting in the background, until `stop` is set or the process ends."""
    stop = stop or threading.Event()
    thread = threading.Thread(target=_keep, args=(diary, stop), name="usage-diary", daemon=True)
    thread.start()
    return thread


def _keep(diary: Diary, stop: threading.Event) -> None:
    pause = LOOK_EVERY
    while not stop.wait(pause):
        pause = LOOK_EVERY
        try:
            diary.note_if_due()
        except SluiceError as error:
            # Nothing is lost: the next note has it all.
            pause = AFTER_FAILURE
            tell(events.USAGE_UNNOTED, error=told(error))
