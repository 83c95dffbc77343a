"""Instances that planned openings warm: what `sluice gate open --at` prints of them, and `sluice tune warm`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from shared.app import Stores
from shared.gate import timestamp
from shared.operating import AuditedAct
from shared.pending import WARM_POINTER
from shared.scaling import (
    HeldVolume,
    InstancePlan,
    InstanceRequest,
    WarmCheck,
    WarmChoice,
    Warmer,
    WarmRecord,
    WarmRequest,
    build_warmer,
    connect_manager,
    end_at_latest,
    plan,
    price_at_most,
    records_of,
    sources_of,
)
from shared.settings import Settings
from shared.usage import load
from tools.cli.cost_view import money
from tools.cli.moments import show_moment
from tools.cli.options import WRONG_CALL, ByOption, JsonOption, SettingsOption, WhyOption, YesOption, connected, end
from tools.cli.screen import Screen
from tools.cli.settings_file import load as load_settings

HOW_TO_WARM = "No instances are warmed before it: docs/scaling.md says how (SLUICE_WARM_SITE)."
HOW_TO_CARRY_OUT = "The app has no identity for it: have a schedule repeat `sluice tune warm --due --yes`."


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmForecast:
    """The instances of an opening as far as they are known when it is planned, and their price."""

    request: WarmRequest
    wanted: InstanceRequest
    held: HeldVolume
    plan: InstancePlan
    opens_at: datetime
    #: Whether the app itself carries it out.
    is_automatic: bool

    @property
    def until(self) -> datetime:
        """When the instances are given back at the latest."""
        return end_at_latest(self.opens_at, self.request.within)

    @property
    def amount_at_most(self) -> str:
        """The price if the bounds of number and time are both reached."""
        return money(price_at_most(self.wanted, self.until - self.opens_at, load().functions))


def forecast(
    stores: Stores, settings: Path | None, gate: str, opens_at: datetime, minutes: float
) -> WarmForecast | None:
    """Return the instances for a planned opening. None: none are warmed."""
    choice = choice_of(Settings.parse(load_settings(settings)))
    if choice is None:
        return None
    within, sources = timedelta(minutes=minutes), sources_of(stores)
    seconds, held = sources.chunk_seconds(), sources.measure_held(gate)
    wanted = InstanceRequest(within=within, most=choice.most, chunk_seconds=seconds)
    return WarmForecast(
        request=WarmRequest(choice.site, within, choice.most),
        wanted=wanted,
        held=held,
        plan=plan(held, wanted, load().functions),
        opens_at=opens_at,
        is_automatic=bool(choice.identity),
    )


def choice_of(settings: Settings) -> WarmChoice | None:
    """Return the choice of the capability `warming`, or None where no app is warmed."""
    found = settings.capability("warming")
    return found.choice if found and found.choice.site else None


def forecast_lines(found: WarmForecast | None) -> list[str]:
    """Return the text of a forecast, with the price."""
    if found is None:
        return [HOW_TO_WARM]
    counts = ", ".join(f"{name} {count}" for name, count in found.plan.always_ready.items())
    now = f"{found.plan.instances} instances ({counts}), {money(found.plan.window)} USD" if counts else "no instances"
    lines = [
        f"From {show_moment(found.opens_at - found.wanted.lead)} UTC on, instances are warmed for the work that the gate then holds.",
        f"For the {found.held.jobs} jobs of {found.held.chunks} chunks that it holds now: {now}.",
        f"At most {found.request.most} instances until {show_moment(found.until)} UTC: {found.amount_at_most} USD.",
    ]
    return lines if found.is_automatic else [*lines, HOW_TO_CARRY_OUT]


def forecast_document(found: WarmForecast | None) -> dict[str, object] | None:
    """Return the same as JSON."""
    if found is None:
        return None
    return {
        "always_ready": dict(found.plan.always_ready),
        "amount": str(found.plan.window),
        "from": timestamp(found.opens_at - found.wanted.lead),
        "until": timestamp(found.until),
        "most": found.request.most,
        "amount_at_most": found.amount_at_most,
        "is_automatic": found.is_automatic,
    }


def show_warm(  # noqa: PLR0913 - each option of the command is an argument
    by: ByOption,
    why: WhyOption = "",
    settings: SettingsOption = None,
    *,
    due: Annotated[
        bool, typer.Option("--due", help="Carry out what is due, as the operator who is logged in.")
    ] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show the openings that warm instances, and the instances to be given back. With --due, change what is due."""
    with connected(settings) as connections:
        stores = Stores(connections)
        changed = _carry_out(stores, load_settings(settings), by, why, is_sure=yes) if due else []
        record = records_of(stores).read().record
    if as_json:
        typer.echo(json.dumps({**_document(record), "changed": changed}))
        return
    for line in changed:
        typer.echo(f"changed: {line}")
    _print(record)


def _carry_out(stores: Stores, values: Mapping[str, str], by: str, why: str, *, is_sure: bool) -> list[str]:
    parsed = Settings.parse(values)
    choice = choice_of(parsed)
    if choice is None:
        end("SLUICE_WARM_SITE is empty: set it to the resource id of the app", WRONG_CALL)
    warmer = build_warmer(stores, choice, parsed.chunk_overdue, partial(connect_manager, choice.endpoint))
    pointers = [pointer for pointer in stores.pending.due(stores.clock.now()) if pointer.kind == WARM_POINTER]
    check = warmer.check()
    if check is not None and not _change(
        warmer, check, stores, AuditedAct(by, "scale warm", choice.site, why), is_sure=is_sure
    ):
        typer.echo("sluice: another process was first; type it again to see what is left", err=True)
        return []
    for pointer in pointers:
        warmer.records.forget(pointer)
    return check.differences if check else []


def _change(warmer: Warmer, check: WarmCheck, stores: Stores, act: AuditedAct, *, is_sure: bool) -> bool:
    if not check.differences:
        return warmer.carry_out(check)
    if not is_sure:
        typer.echo("\n".join(check.differences), err=True)
        typer.confirm("change it? A change of the app's configuration may restart it", abort=True, err=True)
    with stores.audit.record(act) as command:
        is_done = warmer.carry_out(check)
        command.result = "; ".join(check.differences) if is_done else "another process was first"
    return is_done


def _document(record: WarmRecord) -> dict[str, object]:
    return {
        "site": record.site,
        "openings": [
            {
                "gate": one.gate,
                "opens_at": timestamp(one.opens_at),
                "from": timestamp(one.starts_at),
                "until": timestamp(one.until),
                "wanted": one.wanted,
                "by": one.by,
            }
            for one in record.openings
        ],
        "groups": {
            name: {"base": group.base, "set": group.ours[-1:], "is_confirmed": group.is_confirmed}
            for name, group in record.groups.items()
        },
    }


def _print(record: WarmRecord) -> None:
    screen = Screen()
    if record.is_empty:
        screen.print("No planned opening warms instances, and none are to be given back.")
        return
    openings = Table("gate", "opens at (UTC)", "warm from", "until at the latest", "instances", title="Openings")
    for one in record.openings:
        counts = "not counted yet" if one.wanted is None else str(sum(one.wanted.values()))
        openings.add_row(
            one.gate, show_moment(one.opens_at), show_moment(one.starts_at), show_moment(one.until), counts
        )
    groups = Table("group", "before", "set to", "state", title=f"Instances of {record.site.rpartition('/')[2]}")
    for name, group in record.groups.items():
        state = "given back" if group.back_since else "confirmed" if group.is_confirmed else "sent"
        groups.add_row(name, str(group.base or 0), str(group.ours[-1] if group.ours else "-"), state)
    screen.show(openings)
    screen.show(groups)
