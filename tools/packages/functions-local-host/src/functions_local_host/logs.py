"""Log lines that say which function and which invocation wrote them."""

import logging
import sys
import time
from contextvars import ContextVar
from dataclasses import dataclass

#: The host's own lines.
HOST_LOG = logging.getLogger("host")
#: SDK loggers write one line per request; they are let through from this level on.
_SDK_LEVEL = logging.WARNING


@dataclass(frozen=True, slots=True)
class Running:
    """The invocation that the current code belongs to."""

    function: str
    invocation: str


#: Set around user code; tasks that it starts inherit it, threads of its own do so from Python 3.14 on.
running: ContextVar[Running | None] = ContextVar("running", default=None)


class _LineFormatter(logging.Formatter):
    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self, process: str) -> None:
        super().__init__(f"%(asctime)s {process} %(levelname)-7s %(origin)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        now = running.get()
        is_user = now is not None and record.name != HOST_LOG.name
        record.origin = f"[{now.function} {now.invocation}]" if now is not None and is_user else f"[{record.name}]"
        return super().format(record)


def set_up_logging(process: str, host_level: int, function_levels: dict[str, int]) -> None:
    """Send every log line of this process to stderr, at the levels of host.json."""

    def passes(record: logging.LogRecord) -> bool:
        now = running.get()
        if now is None or record.name == HOST_LOG.name:
            return record.levelno >= host_level
        return record.levelno >= function_levels.get(now.function, logging.INFO)

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LineFormatter(process))
    handler.addFilter(passes)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(min(host_level, *function_levels.values(), logging.CRITICAL))
    for name in ("azure", "uamqp", "aiohttp.access"):
        logging.getLogger(name).setLevel(_SDK_LEVEL)
