"""Capabilities: the parts that an installation turns on by one line, SLUICE_CAPABILITIES.

A capability is data, and import strings of the code that runs. So an app imports nothing of one that is off, and of one
that is on only what it uses. A name without a colon is a folder of `capabilities`; any other is `module:NAME`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final, NamedTuple

from shared.azure import Setting
from shared.errors import SettingsError, SluiceError
from shared.refusals import BY_CODE, ReasonCode
from shared.telemetry import LogEvent, Metric
from shared.topology import Entities
from shared.values import SettingReader, problems_of

#: The line.
CAPABILITIES: Final = "SLUICE_CAPABILITIES"
#: Settings of releases before 0.4.0 that turned a part on by themselves. Read as its word for this release.
_IMPLIED: Final[Mapping[str, str]] = {"SLUICE_WARM_SITE": "warming"}
#: The package of the capabilities that come with Sluice. In the wheel it has another name, as this module has.
_SHIPPED: Final = f"{__name__.rpartition('.')[0].removesuffix('shared')}capabilities"
_CONSTANT: Final = "CAPABILITY"


class TriggerKind(StrEnum):
    """The source of a trigger, and by it the argument of the verb."""

    #: A storage queue. The verb gets a `Delivery`.
    QUEUE = "queue"
    #: A queue or subscription of the bus. The verb gets the bodies of a batch.
    BUS = "bus"
    #: A queue of the bus whose messages come one by one. The verb gets a `Delivery`.
    BUS_DELIVERY = "bus_delivery"
    #: The queue of the bus that takes the dead letters. The verb gets those of a batch.
    DEAD_LETTERS = "dead_letters"
    #: A route. The verb gets an `HttpCall`, and returns an `HttpAnswer`, or awaits one.
    HTTP = "http"


class Trigger(NamedTuple):
    """A function of the app, and the verb that it calls."""

    kind: TriggerKind
    name: str
    verb: str
    #: The queue or the topic; the route of an HTTP trigger.
    source: str
    subscription: str = ""
    #: True: a batch is of one session, whose messages keep their order.
    sessions: bool = False
    methods: tuple[str, ...] = ()
    #: True: the host asks for no key, because the verb checks the caller by itself.
    is_open: bool = False

    @property
    def listens_on_bus(self) -> bool:
        """True if it receives from a queue or a subscription of the bus."""
        return self.kind in {TriggerKind.BUS, TriggerKind.BUS_DELIVERY, TriggerKind.DEAD_LETTERS}


def queue(name: str, source: str, verb: str) -> Trigger:
    """Return a trigger of a storage queue."""
    return Trigger(TriggerKind.QUEUE, name, verb, source)


def bus(name: str, source: str, verb: str, *, sessions: bool = False) -> Trigger:
    """Return a trigger of a queue of the bus, or of a `topic/subscription`."""
    entity, _, subscription = source.partition("/")
    return Trigger(TriggerKind.BUS, name, verb, entity, subscription, sessions)


def bus_delivery(name: str, source: str, verb: str) -> Trigger:
    """Return a trigger of a queue of the bus whose messages come one by one."""
    return Trigger(TriggerKind.BUS_DELIVERY, name, verb, source)


def dead_letters(name: str, source: str, verb: str) -> Trigger:
    """Return a trigger of the queue that takes a capability's dead letters."""
    return Trigger(TriggerKind.DEAD_LETTERS, name, verb, source)


def http(name: str, route: str, method: str, verb: str, *, is_open: bool = False) -> Trigger:
    """Return a trigger of a route. Several methods are separated by blanks."""
    return Trigger(TriggerKind.HTTP, name, verb, route, methods=tuple(method.split()), is_open=is_open)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that the bus gave up: its entity, and the bus's reason."""

    entity: str
    message_id: str
    body: bytes
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCall:
    """A request to a route."""

    method: str
    url: str
    #: Names are found in any case.
    headers: Mapping[str, str]
    #: The values of the route's places.
    places: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A whole answer, as the host sends it."""

    status: int
    body: bytes
    #: As pairs where a name may come twice.
    headers: Mapping[str, str] | Sequence[tuple[str, str]]


class TickStep(NamedTuple):
    """A verb that the tick calls with the time until which it may begin something."""

    verb: str
    #: The words of its line in the list of requests of a day without work.
    meaning: str
    #: Table requests of a run that finds nothing due.
    requests: int
    #: The minute of each hour in which it runs. None: in every tick.
    minute: int | None = None


class PointerKind(NamedTuple):
    """A kind of due pointers, and the verb that the tick calls with each one. The tick reads them with those of jobs."""

    kind: str
    verb: str


class CommandGroup(NamedTuple):
    """A group of commands, `sluice NAME ...`, and the import string of its typer app."""

    name: str
    app: str
    meaning: str


class CountedQueues(NamedTuple):
    """A setting that says how many bus queues of a kind there are, the last of the capability, and its highest value."""

    setting: str
    most: int


class SenderRight(NamedTuple):
    """A queue that others may send to: those whom a parameter of the deployment names."""

    parameter: str
    #: `storage` or `bus`.
    service: str
    queue: str


class NeedWords(NamedTuple):
    """A kind of need of a person, as its keys in `shared/watch` have it, and the way out in one sentence."""

    kind: str
    remedy: str
    #: The name of the route that helps, and the part of it that says what the need is about.
    page: str = ""
    place: str = ""


class NumberSequence(NamedTuple):
    """A sequence of numbers, and the import string of the function that finds the owner of one in the stores."""

    name: str
    #: The word for an owner. `sluice WORDs show ID` shows one.
    owner: str
    find: str


def _nothing(_read: SettingReader) -> None:
    return None


def _no_entities(_choice: Any) -> tuple[Entities, ...]:
    return ()


def _no_triggers(_choice: Any) -> tuple[Trigger, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """All that the rest of Sluice learns of a part. Import strings may begin with a dot: they are its own package's."""

    name: str
    settings: tuple[Setting, ...] = ()
    #: Makes the choice from the settings. The functions below get it.
    read: Callable[[SettingReader], Any] = _nothing
    entities: Callable[[Any], tuple[Entities, ...]] = _no_entities
    triggers: Callable[[Any], tuple[Trigger, ...]] = _no_triggers
    tick: tuple[TickStep, ...] = ()
    #: Each is in `OF_CAPABILITIES` of `shared/pending.py` too.
    pointers: tuple[PointerKind, ...] = ()
    reasons: tuple[type[ReasonCode], ...] = ()
    #: Those that it logs, and that the base does not. Their alerts are made where it is on.
    events: tuple[LogEvent, ...] = ()
    metrics: tuple[Metric, ...] = ()
    #: `module:function`, which gets a `BuildSite` and returns the object with the verbs.
    build: str = ""
    #: True: a fault in it leaves it out, and the app runs without it. Pages alone may: messages of a process would wait.
    may_fail: bool = False
    commands: tuple[CommandGroup, ...] = ()
    #: `module:NAME` of its pages. The console alone imports it.
    pages: str = ""
    #: `module:function` of its part of `make demo`. It gets the app's address, the connections, and the printer.
    demo: str = ""
    sequences: tuple[NumberSequence, ...] = ()
    #: The needs that its verbs note.
    needs: tuple[NeedWords, ...] = ()
    #: `module:TABLES` of the tables that its pages of the documentation have, each as its header and rows.
    tables: str = ""
    #: For the deployment.
    counted: CountedQueues | None = None
    senders: tuple[SenderRight, ...] = ()


@dataclass(frozen=True, slots=True)
class Chosen:
    """A capability that an installation has, with the choice that its settings make."""

    capability: Capability
    #: The words of the line.
    said: str
    package: str
    choice: Any = field(default=None, repr=False)
    #: Why it is left out, if it is.
    fault: str = ""

    @property
    def name(self) -> str:
        """The capability's name."""
        return self.capability.name

    @property
    def entities(self) -> tuple[Entities, ...]:
        """Its entities."""
        return self.capability.entities(self.choice)

    @property
    def triggers(self) -> tuple[Trigger, ...]:
        """Its functions."""
        return self.capability.triggers(self.choice)

    def build(self, site: object) -> Any:
        """Build the object with its verbs, and refuse one that lacks a verb."""
        if not self.capability.build:
            return None
        try:
            verbs = self.load(self.capability.build)(site)
        except SluiceError:
            raise
        except Exception as error:
            raise SettingsError(f"{self.said} cannot be built: {type(error).__name__}: {error}") from error
        wanted = [(f"trigger {one.name!r}", one.verb) for one in self.triggers]
        wanted += [("the tick", one.verb) for one in self.capability.tick]
        wanted += [("the tick", one.verb) for one in self.capability.pointers]
        lacking = [f"{who} calls {verb!r}" for who, verb in wanted if not callable(getattr(verbs, verb, None))]
        if lacking:
            raise SettingsError(f"{self.said}: {', '.join(lacking)}, which build() does not have")
        return verbs

    def load(self, name: str) -> Any:
        """Import what one of the capability's import strings names."""
        module, _, attribute = name.partition(":")
        return getattr(import_module(module, self.package), attribute)


def line_of(environ: Mapping[str, str]) -> list[str]:
    """Return the words of the line."""
    said = [one.strip() for one in environ.get(CAPABILITIES, "").split(",") if one.strip()]
    implied = [name for setting, name in _IMPLIED.items() if environ.get(setting, "").strip()]
    return list(dict.fromkeys([*said, *implied]))


def builtin_names() -> list[str]:
    """Return the names of the capabilities that come with Sluice."""
    return sorted(one.name for one in iter_modules(import_module(_SHIPPED).__path__) if one.ispkg)


def find(said: str) -> Chosen:
    """Import a capability by its word in the line, without a choice yet."""
    module, _, attribute = (said if ":" in said else f"{_SHIPPED}.{said}:{_CONSTANT}").partition(":")
    if ":" not in said and said not in builtin_names():
        raise SettingsError(
            f"{CAPABILITIES} names {said!r}: there is no capabilities/{said} (known: {', '.join(builtin_names())})"
        )
    try:
        found = getattr(import_module(module), attribute)
    except Exception as error:
        # It runs the code of the capability, which may fail in any way.
        raise SettingsError(
            f"{CAPABILITIES} names {said!r}, which cannot be imported: {type(error).__name__}: {error}; write module:NAME, with the module beside "
            "function_app.py"
        ) from error
    if not isinstance(found, Capability):
        raise SettingsError(f"{CAPABILITIES} names {said!r}, which is {type(found).__name__} and no Capability")
    return Chosen(found, said, module)


def find_known(*environs: Mapping[str, str]) -> list[Chosen]:
    """Return each capability that may have rows or settings: those that come with Sluice, and those of the lines."""
    line = [said for environ in environs for said in line_of(environ)]
    return [find(said) for said in dict.fromkeys([*builtin_names(), *line])]


def names_of_settings(capabilities: Iterable[Chosen]) -> set[str]:
    """Return the names of the settings that capabilities have."""
    return {setting.name for one in capabilities for setting in one.capability.settings}


def choose(
    line: Sequence[str], base: Sequence[Setting], environ: Mapping[str, str], report: Callable[[str], None]
) -> tuple[Chosen, ...]:
    """Return the capabilities of a line with their choices. Faults of the line and of their settings are reported."""
    found = list(_find_each(line, report))
    for fault in _faults(found, base):
        report(fault)
    read = tuple(_read(one, environ, report) for one in found)
    for fault in _name_twice([("function", trigger.name, one.name) for one in read for trigger in one.triggers]):
        report(fault)
    return read


def _find_each(line: Sequence[str], report: Callable[[str], None]) -> Iterator[Chosen]:
    for said in dict.fromkeys(line):
        try:
            yield find(said)
        except SettingsError as error:
            report(str(error))


def _read(one: Chosen, environ: Mapping[str, str], report: Callable[[str], None]) -> Chosen:
    settings, faults = one.capability.settings, list[str]()
    for setting in settings:
        faults += problems_of(setting, environ)
    choice = one.capability.read(SettingReader(settings, environ, faults.append))
    if one.capability.may_fail:
        return Chosen(one.capability, one.said, one.package, choice, "; ".join(faults))
    for fault in faults:
        report(fault)
    return Chosen(one.capability, one.said, one.package, choice)


def _faults(found: Sequence[Chosen], base: Sequence[Setting]) -> Iterator[str]:
    names = [("capability", one.name, one.said) for one in found]
    settings = [("setting", setting.name, "the base") for setting in base]
    settings += [("setting", setting.name, one.name) for one in found for setting in one.capability.settings]
    reasons = [("reason", code, "the base") for code in BY_CODE]
    reasons += [
        ("reason", str(reason), one.name) for one in found for kind in one.capability.reasons for reason in kind
    ]
    yield from _name_twice([*names, *settings, *reasons])


def _name_twice(every: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    counts = Counter((kind, name) for kind, name, _ in every)
    for (kind, name), number in counts.items():
        if number > 1:
            owners = [owner for other, same, owner in every if (other, same) == (kind, name)]
            yield f"{kind} {name!r} is there {number} times, by {' and '.join(owners)}: rename all but one"
