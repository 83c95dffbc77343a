"""The stages of the pipeline as the app registers them, over whatever a test gives them."""

from shared.parked.parking import Stages
from shared.pipeline.accept import accept_stage
from shared.pipeline.failing.work_stages import work_stages
from shared.pipeline.settle import settle_stage
from tests.ledger.memory_ledger import MemoryLedger


def ignore(*_):
    """Send and put nothing."""


def stages(ledger=None, put=ignore, send=ignore):
    """Return the four stages. Without a ledger, no job is known."""
    ledger = ledger or MemoryLedger()
    return Stages(accept_stage(ledger, put), *work_stages(ledger, put, send), settle_stage(ledger, send))
