"""The fleet's partition in the table `decisions`: one request reads all of it, one transaction changes it."""

import itertools
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from azure.core import MatchConditions
from azure.data.tables import TableClient, TableTransactionError, UpdateMode

from shared.azure import Governor, expecting_an_answer
from shared.concurrency import fleet as rows
from shared.concurrency.decide import Decision
from shared.concurrency.fleet import Fleet, RulesInForce, Worker

#: What a transaction takes, less the decision's own rows.
_MOST_GONE: Final = 90
_Operation: TypeAlias = tuple[str, rows.Row] | tuple[str, rows.Row, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetChange:
    """What a look of the tick changes."""

    #: None: it stays as it is.
    decision: Decision | None = None
    governors: Mapping[str, Governor] = field(default_factory=dict)
    #: Rules that were found new; `rules_gone`: an operator took them away.
    in_force: RulesInForce | None = None
    rules_gone: bool = False
    #: Processes that have not been heard of for long.
    gone: Sequence[Worker] = ()

    @property
    def is_none(self) -> bool:
        """Whether nothing changes."""
        return not (self.decision or self.governors or self.in_force or self.rules_gone or self.gone)


class FleetTable:
    """The table adapter."""

    def __init__(self, table: TableClient) -> None:
        self._table = table

    def read(self, known: RulesInForce | None = None) -> Fleet:
        """Return what the fleet shares; one request. `known`: rules that this caller has read before."""
        query = "PartitionKey eq @partition and RowKey lt @history"
        names = {"partition": rows.PARTITION, "history": rows.HISTORY}
        with expecting_an_answer("read the decision about concurrency"):
            return rows.fleet_of(list(self._table.query_entities(query, parameters=names)), known)

    def report(self, worker: Worker) -> None:
        """Write what a process tells of itself, over what it told before."""
        with expecting_an_answer("tell what this process works on"):
            self._table.upsert_entity(rows.worker_row(worker), mode=UpdateMode.REPLACE)

    def report_slow(self, governors: Mapping[str, Governor]) -> None:
        """Tell the others that a resource pushed back.

        Of two that tell the same moment the last one stays: either says that it pushed back, and both are newer than
        what stood there.
        """
        for resource, governor in governors.items():
            with expecting_an_answer(f"tell that {resource} pushed back"):
                self._table.upsert_entity(rows.governor_row(resource, governor), mode=UpdateMode.REPLACE)

    def commit(self, seen: Fleet, change: FleetChange) -> bool:
        """Write a look's changes in one transaction; False: another tick was first, and its decision stands.

        A lost reply needs no reading back: whatever was written is what the next look starts from.
        """
        operations = list(self._operations(seen, change))
        with expecting_an_answer("write the decision about concurrency"):
            try:
                self._table.submit_transaction(operations)
            except TableTransactionError:
                return False
        return True

    def _operations(self, seen: Fleet, change: FleetChange) -> Iterator[_Operation]:
        replace = {"mode": UpdateMode.REPLACE}
        if change.decision is not None:
            columns = rows.decision_row(change.decision)
            current = {**rows.key(rows.DECISION), **columns}
            if seen.decision is None:
                yield "create", current
            else:
                yield (
                    "update",
                    current,
                    {**replace, "etag": seen.decision_etag, "match_condition": MatchConditions.IfNotModified},
                )
            yield "create", {**rows.key(rows.history_key(change.decision.at, secrets.token_hex(4))), **columns}
        for resource, governor in change.governors.items():
            yield "upsert", rows.governor_row(resource, governor), replace
        if change.in_force is not None:
            yield "upsert", rows.rules_row(change.in_force), replace
        if change.rules_gone:
            yield "delete", rows.key(rows.RULES)
        for worker in change.gone[:_MOST_GONE]:
            yield "delete", rows.key(rows.WORKER + worker.name)

    def history(self, most: int) -> list[Decision]:
        """Return the last decisions, the newest first."""
        names = {"partition": rows.PARTITION, "history": rows.HISTORY}
        with expecting_an_answer("read the decisions about concurrency"):
            found = self._table.query_entities(
                "PartitionKey eq @partition and RowKey ge @history", parameters=names, results_per_page=most
            )
            return [rows.decision_of(row) for row in itertools.islice(found, most)]
