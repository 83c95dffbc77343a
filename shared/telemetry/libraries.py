"""What the storage and bus libraries say of themselves."""

import logging
from typing import Final

#: The libraries write each request and each reply with its headers at INFO. The Python worker passes on whatever the
#: root logger takes, under the function's own category, where host.json cannot tell it from what the app says: two
#: traces a request would be the larger part of the telemetry's bill.
_TALKATIVE: Final = ("azure", "urllib3")


def quiet_libraries() -> None:
    """Hear of the libraries' warnings only; a workload's module, which is loaded later, may set another level."""
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
