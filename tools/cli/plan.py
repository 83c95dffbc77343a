"""`sluice tune plan`: plans always-ready instances for a gate, prices them, and sets them with `--apply`."""

import json
from datetime import timedelta
from decimal import Decimal
from typing import Annotated

import typer
from rich.table import Table

from shared.app import Stores
from shared.gate import Spread
from shared.operating import AuditedAct, AuditTable
from shared.scaling import (
    PUBLIC,
    FirstChunkDelays,
    HeldVolume,
    InstancePlan,
    InstanceRequest,
    ResourceManager,
    Site,
    az_commands,
    bicep_parameters,
    connect_manager,
    plan,
    prepare,
    records_of,
    send,
    sources_of,
)
from shared.usage import load
from tools.cli.cost_idle import installed
from tools.cli.cost_view import money, plain
from tools.cli.options import (
    PROBLEM_FOUND,
    ByOption,
    JsonOption,
    PricesOption,
    SettingsOption,
    WhyOption,
    YesOption,
    connected,
)
from tools.cli.screen import Screen
from tools.planning.most import Most

#: Placeholders in the printed commands for options that were not given.
UNSAID = {"subscription": "SUBSCRIPTION", "group": "GROUP", "name": "APP"}

GateArgument = Annotated[str, typer.Argument(help="The gate that holds the work.", metavar="GATE")]


def plan_for_gate(  # noqa: PLR0913 - each is one fact about the installation or one wish
    gate: GateArgument,
    by: ByOption,
    why: WhyOption = "",
    settings: SettingsOption = None,
    prices: PricesOption = None,
    *,
    minutes: Annotated[float, typer.Option(min=1, help="From the opening to the last chunk.")] = 10,
    lead: Annotated[float, typer.Option(min=0, help="Minutes before the opening at which they are to be there.")] = 10,
    seconds: Annotated[
        float | None, typer.Option(min=0.001, help="Seconds that an instance is busy with a chunk; else as measured.")
    ] = None,
    memory: Annotated[int, typer.Option(help="MB of an instance.")] = 2048,
    subscription: Annotated[str, typer.Option(envvar="AZURE_SUBSCRIPTION_ID", help="Id of the subscription.")] = "",
    group: Annotated[
        str, typer.Option("--resource-group", envvar="AZURE_RESOURCE_GROUP", help="The app's group.")
    ] = "",
    name: Annotated[str, typer.Option("--app", help="The app's name.")] = "",
    endpoint: Annotated[str, typer.Option(help="Resource Manager of another cloud.")] = PUBLIC,
    apply: Annotated[bool, typer.Option("--apply", help="Carry it out. Without it no request goes to Azure.")] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Plan the instances for a gate's held work: settings, price, commands. With --apply, set them."""
    site = Site(subscription, group, name)
    if apply and not all((subscription, group, name)):
        raise typer.BadParameter("say which app: --subscription, --resource-group and --app", param_hint="--apply")
    with connected(settings) as connections:
        stores = Stores(connections)
        sources = sources_of(stores)
        held, measured = sources.measure_held(gate), sources.chunk_seconds()
        wanted = InstanceRequest(
            within=timedelta(minutes=minutes),
            lead=timedelta(minutes=lead),
            chunk_seconds=seconds or measured,
            memory_mb=memory,
        )
        functions = load(prices).functions
        found = plan(held, wanted, functions)
        most = Most(groups=installed(settings).function_groups, maximum=found.maximum, gigabytes=memory / Decimal(1024))
        most_hour = most.price_hour(functions)
        delays = sources.first_chunk_delays(gate, records_of(stores).read().record.past)
        if as_json:
            document = {
                **_document(gate, held, wanted, found),
                "first_chunk": _delays_document(delays),
                "function_groups": most.groups,
                "instances_at_most": most.instances,
                "amount_of_an_hour_at_most": plain(most_hour),
            }
            typer.echo(json.dumps(document))
        else:
            _print(gate, held, wanted, found, site=site, delays=delays)
            if held.jobs:
                typer.echo(
                    f"The maximum holds for each of {most.groups} function groups. An hour with all of them at it costs "
                    f"{money(most_hour)} USD. `SLUICE_BUDGET_PER_DAY` slows the work before that."
                )
        if apply:
            command = AuditedAct(by, "scale apply", site.path, why, {"gate": gate})
            with connect_manager(endpoint) as manager:
                _apply(found, manager, stores.audit, command, is_sure=yes)


def _apply(
    found: InstancePlan, manager: ResourceManager, audit: AuditTable, command: AuditedAct, *, is_sure: bool
) -> None:
    site = Site.parse(command.target)
    change = prepare(manager, site, found)
    if not change.differences:
        typer.echo(f"app {site.name} is scaled like that already: nothing is sent")
        return
    typer.echo("\n".join([f"app {site.name} would change:", *(f"  {one}" for one in change.differences)]))
    if not is_sure:
        typer.confirm("change it? A change of the app's configuration may restart it", abort=True)
    with audit.record(command):
        left = send(manager, change)
        command.result = "; ".join(change.differences)
    if left:
        typer.echo("accepted, and not carried out yet: " + "; ".join(left), err=True)
        raise typer.Exit(PROBLEM_FOUND)
    typer.echo(f"app {site.name} is scaled; take it back after the release, it costs until then")


def _print(  # noqa: PLR0913 - each is a part of the page
    gate: str,
    held: HeldVolume,
    wanted: InstanceRequest,
    found: InstancePlan,
    *,
    site: Site,
    delays: FirstChunkDelays,
) -> None:
    screen, waiting = Screen(), f", and {held.others} messages that are no jobs" if held.others else ""
    screen.print(f"Gate {gate} holds {held.jobs} jobs of {held.chunks} chunks{waiting}.")
    if not held.jobs:
        return
    table = Table("function", "always ready", title="Before the gate opens")
    for function, count in found.always_ready.items():
        table.add_row(function, str(count))
    table.add_section()
    table.add_row("at most, of each function", str(found.maximum))
    screen.show(table)
    screen.print("\n".join(_delay_lines(delays)))
    screen.print(
        f"Chunks of {wanted.chunk_seconds:.3g} s end {_duration(found.finishes_in)} after the first one began. "
        f"From {wanted.lead.total_seconds() / 60:g} minutes before it to the end they cost {money(found.window)} "
        f"USD; left for a month, {money(found.month)} USD."
    )
    group, name = site.group or UNSAID["group"], site.name or UNSAID["name"]
    commands = "\n".join(az_commands(found, group, name))
    # No wrapping and no markup, so that they can be copied.
    typer.echo(f"\nAzure CLI, the last one takes it back:\n{commands}\n\nBicep:\n{bicep_parameters(found)}")


def _delay_lines(found: FirstChunkDelays) -> list[str]:
    where = "of this gate" if found.is_of_gate else "of all gates"
    return [
        f"First chunk after the opening, {state}: {_delay_words(delays, where)}."
        for state, delays in (("with instances ready", found.warm), ("without", found.others))
    ]


def _delay_words(found: Spread | None, where: str) -> str:
    if found is None:
        return "not measured yet"
    return f"p50 {found.p50:.3f} s, p99 {found.p99:.3f} s, measured at {found.number} openings {where}"


def _delays_document(found: FirstChunkDelays) -> dict[str, object]:
    warm, others = (
        one and {"openings": one.number, "p50": round(one.p50, 3), "p99": round(one.p99, 3)}
        for one in (found.warm, found.others)
    )
    return {"with_instances": warm, "without": others, "of": "gate" if found.is_of_gate else "all gates"}


def _duration(time: timedelta) -> str:
    seconds = time.total_seconds()
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.1f} minutes"


def _document(gate: str, held: HeldVolume, wanted: InstanceRequest, found: InstancePlan) -> dict[str, object]:
    return {
        "gate": gate,
        "jobs": held.jobs,
        "chunks": held.chunks,
        "others": held.others,
        "chunk_seconds": wanted.chunk_seconds,
        "always_ready": dict(found.always_ready),
        "maximum": found.maximum,
        "finishes_in_seconds": found.finishes_in.total_seconds(),
        "amount_window": plain(found.window),
        "amount_month": plain(found.month),
        "commands": az_commands(found, UNSAID["group"], UNSAID["name"]),
        "bicep": bicep_parameters(found),
    }
