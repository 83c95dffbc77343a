"""The app: builds every stage from connections and settings.

Reading order:

- `app`: its verbs, the timer, the lines of parked entries and dry runs, for pages and commands.
- `stages`: the construction of the stages, and of the tasks of this process and of the fleet.
- `gate_stores`: those that an act on a gate needs.
- `stores`: the tables, containers, queues and topics of an installation.
"""

from shared.app.app import (
    App as App,
    BuildSite as BuildSite,
    Parts as Parts,
    Takeovers as Takeovers,
    build_dry_runner as build_dry_runner,
    build_entry_reader as build_entry_reader,
)
from shared.app.gate_stores import GateStores as GateStores
from shared.app.stores import TRANSACTION_IDS as TRANSACTION_IDS, Stores as Stores
