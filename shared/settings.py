"""Every setting of the app, parsed once from a mapping; `function_app` is the only reader of the environment.

SETTINGS is the one list: the sample file, the documentation's table and Bicep are checked against it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

#: Azurite's and the official Service Bus emulator's own well-known connection strings: no secrets.
LOCAL_STORAGE = "UseDevelopmentStorage=true"
LOCAL_BUS = (
    "Endpoint=sb://localhost;SharedAccessKeyName=RootManageSharedAccessKey;"
    "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
)
#: The settings that name the app's storage account and its Service Bus namespace; triggers name them too.
STORAGE, BUS = "SluiceStorage", "SluiceBus"

#: The workload that comes with Sluice.
BILLING = "shared.workloads.billing:Billing"


class SettingsError(ValueError):
    """Raised when settings are missing or make no sense; it names all of them at once."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: what it does, its safe local value, and its default; None means it must be set."""

    name: str
    what: str
    local: str
    default: str | None = None
    #: A connection may be one connection string, or settings that begin with its name and two underscores (identity).
    is_connection: bool = False


SETTINGS = (
    Setting(STORAGE, "the app's storage account: queues, blobs, tables", LOCAL_STORAGE, is_connection=True),
    Setting(BUS, "the Service Bus namespace: results, signals, events of jobs", LOCAL_BUS, is_connection=True),
    Setting("SLUICE_WORK_QUEUES", "work queues that chunks are spread over, 1 to 100", "1", default="1"),
    Setting("SLUICE_CHUNK_ITEMS", "transactions of a chunk, 1 to 100000", "1000", default="1000"),
    Setting(
        "SLUICE_CHUNK_OVERDUE_SECONDS",
        "how long a job may be silent before the tick puts its chunks again, 60 to 86400",
        "600",
        default="600",
    ),
    Setting(
        # Not below 8: what the host leaves on a poison queue lives for 7, and is parked from there.
        "SLUICE_RETENTION_DAYS",
        "how long a finished job keeps its payload, results and chunk rows, 8 to 3650",
        "30",
        default="30",
    ),
    Setting(
        "SLUICE_WORKLOADS",
        "the workloads that jobs may name, as `module:Class`, separated by commas",
        BILLING,
        default=BILLING,
    ),
    # No default: the host reads it where the trigger names it, and knows nothing of this list.
    Setting("SLUICE_TICK_SCHEDULE", "when the app's one timer runs, an NCRONTAB expression in UTC", "0 * * * * *"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the app was told."""

    work_queues: int
    chunk_items: int
    chunk_overdue: timedelta
    retention: timedelta
    #: As in SLUICE_WORKLOADS; loading them is up to whoever runs them.
    workloads: str

    @classmethod
    def parse(cls, environ: Mapping[str, str]) -> Self:
        """Return the settings, or raise one error that names everything wrong with them."""
        problems = [problem for setting in SETTINGS if (problem := _missing(setting, environ))]
        work_queues = _whole_number("SLUICE_WORK_QUEUES", 1, 100, environ, problems.append)
        chunk_items = _whole_number("SLUICE_CHUNK_ITEMS", 1, 100_000, environ, problems.append)
        overdue = _whole_number("SLUICE_CHUNK_OVERDUE_SECONDS", 60, 86_400, environ, problems.append)
        retention = _whole_number("SLUICE_RETENTION_DAYS", 8, 3650, environ, problems.append)
        if problems:
            raise SettingsError("; ".join(problems))
        return cls(
            work_queues=work_queues,
            chunk_items=chunk_items,
            chunk_overdue=timedelta(seconds=overdue),
            retention=timedelta(days=retention),
            workloads=environ.get("SLUICE_WORKLOADS", "").strip() or BILLING,
        )


def _missing(setting: Setting, environ: Mapping[str, str]) -> str:
    if setting.default is not None or environ.get(setting.name, "").strip():
        return ""
    if setting.is_connection and any(name.startswith(f"{setting.name}__") for name in environ):
        return ""
    return f"{setting.name} is missing ({setting.what}): local.settings.sample.json has a local value"


def _whole_number(
    name: str, lowest: int, highest: int, environ: Mapping[str, str], report: Callable[[str], None]
) -> int:
    text = environ.get(name) or next(setting.default for setting in SETTINGS if setting.name == name) or ""
    if text.strip().isascii() and text.strip().isdigit() and lowest <= int(text) <= highest:
        return int(text)
    report(f"{name} is {text!r}, expected a whole number from {lowest} to {highest}")
    return lowest
