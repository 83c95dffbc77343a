"""The parts of pages of your own in the console. The template `table.html` takes a `header` and `rows`."""

from capabilities.console.pages import CapabilityPages as CapabilityPages, Route as Route
from capabilities.console.visit import Page as Page, Visit as Visit
