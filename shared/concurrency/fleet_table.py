"""The fleet's partition in the table `decisions`. One request reads all of it, one transaction changes it."""

import itertools
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from azure.core import MatchConditions
from azure.core.exceptions import ResourceModifiedError
from azure.data.tables import TableClient, TableTransactionError, UpdateMode

from shared.azure import Governor, GroupOperation, expecting_an_answer, write_group
from shared.concurrency import fleet as rows
from shared.concurrency.decide import Decision, LaneRow
from shared.concurrency.fleet import Fleet, RulesInForce, Worker

#: The limit of a transaction, less the decision's own rows.
_MOST_GONE: Final = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetChange:
    """The changes of one tick."""

    #: None: it stays.
    decision: Decision | None = None
    governors: Mapping[str, Governor] = field(default_factory=dict)
    #: New rules, or, with `rules_gone`, their removal by an operator.
    in_force: RulesInForce | None = None
    rules_gone: bool = False
    #: Processes without a report for long.
    gone: Sequence[Worker] = ()

    @property
    def is_none(self) -> bool:
        """True if nothing changes."""
        return not (self.decision or self.governors or self.in_force or self.rules_gone or self.gone)


class FleetTable:
    """The reads and writes of the partition."""

    def __init__(self, table: TableClient) -> None:
        self._table = table

    def read(self, known: RulesInForce | None = None) -> Fleet:
        """Read the partition. Makes one request. `known` are rules that this caller has parsed before."""
        query = "PartitionKey eq @partition and RowKey lt @history"
        names = {"partition": rows.PARTITION, "history": rows.HISTORY}
        with expecting_an_answer("read the decision about concurrency"):
            return rows.fleet_of(list(self._table.query_entities(query, parameters=names)), known)

    def report(self, worker: Worker) -> None:
        """Write the report of a process over its previous one."""
        with expecting_an_answer("report the work of this process"):
            self._table.upsert_entity(rows.worker_row(worker), mode=UpdateMode.REPLACE)

    def report_slow(self, governors: Mapping[str, Governor]) -> None:
        """Report to the other processes that a resource pushed back.

        If two processes report at the same moment, the later write stays. That is right: both say that the resource
        pushed back, and both are newer than the row before them.
        """
        for resource, governor in governors.items():
            with expecting_an_answer(f"report that {resource} pushed back"):
                self._table.upsert_entity(rows.governor_row(resource, governor), mode=UpdateMode.REPLACE)

    def announce(self, until: datetime) -> LaneRow:
        """Write that the urgent lane may hold something, and that more may come until then."""
        with expecting_an_answer("announce messages on the urgent lane"):
            written = self._table.upsert_entity(rows.lane_row(until), mode=UpdateMode.REPLACE)
        return LaneRow(until, str(written["etag"]))

    def forget(self, lane: LaneRow) -> None:
        """Remove that row, unless it was written since."""
        with expecting_an_answer("note that the urgent lane is empty"), suppress(ResourceModifiedError):
            self._table.delete_entity(
                rows.key(rows.LANE), etag=lane.etag, match_condition=MatchConditions.IfNotModified
            )

    def commit(self, seen: Fleet, change: FleetChange) -> bool:
        """Write a tick's changes in one transaction. Return False if another tick was first: its decision stands.

        After a lost reply nothing is read back: the next tick starts from the rows as they are then.
        """
        operations = list(self._operations(seen, change))
        with expecting_an_answer("write the decision about concurrency"):
            try:
                write_group(self._table, operations)
            except TableTransactionError:
                return False
        return True

    def _operations(self, seen: Fleet, change: FleetChange) -> Iterator[GroupOperation]:
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
        """Read the last decisions, the newest first."""
        names = {"partition": rows.PARTITION, "history": rows.HISTORY}
        with expecting_an_answer("read the decisions about concurrency"):
            found = self._table.query_entities(
                "PartitionKey eq @partition and RowKey ge @history", parameters=names, results_per_page=most
            )
            return [rows.decision_of(row) for row in itertools.islice(found, most)]
