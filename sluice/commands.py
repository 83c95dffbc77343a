"""The parts of commands of your own: `sluice NAME ...`."""

from tools.cli.opening import opened as opened
from tools.cli.options import JsonOption as JsonOption, SettingsOption as SettingsOption
