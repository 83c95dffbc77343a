"""Stands in for what the tests of azure-servicebus take from Azure: entities made for one test each, and logins.

Their decorators run while pytest collects. Each notes the entities that it wants, and the broker starts with all of
them. Their tests, the client and the assertions stay as Microsoft wrote them.
"""

import asyncio
import functools
import inspect
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from types import ModuleType, SimpleNamespace
from typing import Any

from azure.servicebus import _base_handler
from azure.servicebus.aio import _base_handler_async
from servicebus_local.entities import DeliveryRules, Namespace, Queue, Subscription, Topic
from servicebus_local.tokens import Policy, Right

#: The policies of the broker, by their rights, with a key for this run.
KEY = "live-tests-of-the-sdk"
POLICIES = {
    one.rights: one
    for one in (
        Policy("RootManageSharedAccessKey", KEY, frozenset(Right)),
        Policy("listener", f"{KEY}-to-listen", frozenset({Right.LISTEN})),
        Policy("sender", f"{KEY}-to-send", frozenset({Right.SEND})),
    )
}
POLICY = POLICIES[frozenset(Right)].name
#: A test that is run by two transports asks twice.
COPIES = 2
_queues: list[Queue] = []
_topics: list[tuple[str, bool, list[Subscription]]] = []


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


PORT = _free_port()
#: What follows the name of a namespace. The client knows no port in it: it takes the one of AMQP.
SUFFIX = ""
CONNECTION = f"Endpoint=sb://localhost/;SharedAccessKeyName={POLICY};SharedAccessKey={KEY}"


def entities() -> Namespace:
    """Return everything that the collected tests want."""
    topics = (Topic(name, tuple(own), _window(of=detects)) for name, detects, own in _topics)
    return Namespace(tuple(_queues), tuple(topics))


def modules() -> dict[str, ModuleType]:
    """Return the modules that the tests import and no registry has, by name."""
    made = {
        "devtools_testutils": {
            "AzureMgmtRecordedTestCase": object,
            "AzureRecordedTestCase": SimpleNamespace(await_prepared_test=_awaited),
            "RandomNameResourceGroupPreparer": _nothing,
            "set_custom_default_matcher": lambda **_: None,
            "PowerShellPreparer": _nothing,
            "get_credential": _credential,
        },
        "devtools_testutils.sanitizers": dict.fromkeys(
            ("add_remove_header_sanitizer", "add_general_regex_sanitizer", "add_oauth_response_sanitizer"),
            lambda **_: None,
        ),
        "azure.common": {"AzureHttpError": Exception, "AzureConflictHttpError": Exception},
        "azure.mgmt": {},
        "azure.mgmt.servicebus": {},
        "azure.mgmt.servicebus.models": {"AccessRights": SimpleNamespace(send=Right.SEND, listen=Right.LISTEN)},
        "servicebus_preparer": _preparers(),
    }
    found = {}
    for name, content in made.items():
        found[name] = ModuleType(name)
        vars(found[name]).update(content)
    return found


def _awaited(test: Callable[..., Any]) -> Callable[..., None]:
    @functools.wraps(test)
    def call(*args: Any, **known: Any) -> None:
        asyncio.run(test(*args, **known))

    return call


def _credential(*, is_async: bool = False) -> object:
    handler = _base_handler_async if is_async else _base_handler
    return handler.ServiceBusSharedKeyCredential(POLICY, KEY)


def _preparers() -> dict[str, object]:
    named: dict[str, object] = {"SERVICEBUS_ENDPOINT_SUFFIX": SUFFIX}
    for kind, prepare in (
        ("ResourceGroup", _nothing),
        ("Namespace", _namespace),
        ("Queue", _queue),
        ("Topic", _topic),
        ("Subscription", _subscription),
    ):
        named[f"ServiceBus{kind}Preparer"] = prepare
        named[f"CachedServiceBus{kind}Preparer"] = functools.partial(prepare, cached=True)
    for kind, parameter in (("Namespace", ""), ("Queue", "_queue")):
        right = functools.partial(_right, f"servicebus{parameter}_authorization_rule_connection_string")
        named[f"ServiceBus{kind}AuthorizationRulePreparer"] = right
    return named


Test = Callable[..., Any]
Given = Callable[[dict[str, Any]], dict[str, Any]]


def _decorator(give: Given) -> Callable[[Test], Test]:
    """Return a decorator whose test gets more arguments by name; the outer ones are there already."""

    def decorate(test: Test) -> Test:
        if inspect.iscoroutinefunction(inspect.unwrap(test)):

            @functools.wraps(test)
            async def ask(*args: Any, **known: Any) -> None:
                await test(*args, **known, **give(known))

            return ask

        @functools.wraps(test)
        def call(*args: Any, **known: Any) -> None:
            test(*args, **known, **give(known))

        return call

    return decorate


def _nothing(*_: Any, **__: Any) -> Callable[[Test], Test]:
    return _decorator(lambda _: {})


def _right(
    parameter: str, _: str = "", *, access_rights: Sequence[Right] = (*Right,), **__: Any
) -> Callable[[Test], Test]:
    policy = POLICIES[frozenset(access_rights)]
    connection = f"Endpoint=sb://localhost/;SharedAccessKeyName={policy.name};SharedAccessKey={policy.key}"
    of_queue = "_queue_" in parameter
    return _decorator(
        lambda known: {
            parameter: f"{connection};EntityPath={known['servicebus_queue'].name}" if of_queue else connection
        }
    )


def _namespace(**_: Any) -> Callable[[Test], Test]:
    given = {
        "servicebus_namespace": SimpleNamespace(name="localhost"),
        "servicebus_namespace_connection_string": CONNECTION,
        "servicebus_namespace_key_name": POLICY,
        "servicebus_namespace_primary_key": KEY,
    }
    return _decorator(lambda _: given)


#: Entities that several tests share, by what was asked for.
_shared: dict[str, Any] = {}


def _queue(*, cached: bool = False, parameter_name: str = "servicebus_queue", **wanted: Any) -> Callable[[Test], Test]:
    window = _window(of=wanted.get("requires_duplicate_detection", False))

    def make() -> SimpleNamespace:
        _queues.append(Queue(f"queue-{len(_queues)}", _rules(wanted), window))
        return SimpleNamespace(name=_queues[-1].name)

    return _made(make, parameter_name, f"queue {wanted}" if cached else "")


def _topic(*, cached: bool = False, parameter_name: str = "servicebus_topic", **wanted: Any) -> Callable[[Test], Test]:
    def make() -> SimpleNamespace:
        own: list[Subscription] = []
        _topics.append((f"topic-{len(_topics)}", False, own))
        # Every subscription that a test might want of it: which one it does is not known before the test runs.
        for sessions in (False, True):
            for seconds in (5, 30, 60):
                name = _subscription_name(sessions=sessions, seconds=seconds)
                rules = DeliveryRules(sessions=sessions, lock=timedelta(seconds=seconds))
                own.append(Subscription(name, (), rules))
        return SimpleNamespace(name=_topics[-1][0])

    return _made(make, parameter_name, f"topic {wanted}" if cached else "")


def _subscription(
    *, cached: bool = False, parameter_name: str = "servicebus_subscription", **wanted: Any
) -> Callable[[Test], Test]:
    rules = _rules(wanted)
    name = _subscription_name(sessions=rules.sessions, seconds=int(rules.lock.total_seconds()))
    return _decorator(lambda _: {parameter_name: SimpleNamespace(name=name)})


def _subscription_name(*, sessions: bool, seconds: int) -> str:
    return f"{'sessions' if sessions else 'plain'}-{seconds}"


def _made(make: Callable[[], SimpleNamespace], parameter: str, shared: str) -> Callable[[Test], Test]:
    if shared:
        one = _shared.setdefault(shared, None) or make()
        _shared[shared] = one
        return _decorator(lambda _: {parameter: one})
    copies: Iterator[SimpleNamespace] = iter([make() for _ in range(COPIES)])
    return _decorator(lambda _: {parameter: next(copies)})


def _rules(wanted: dict[str, Any]) -> DeliveryRules:
    lock = re.fullmatch(r"PT(\d+)([SM])", wanted.get("lock_duration", "PT30S"))
    assert lock, wanted
    return DeliveryRules(
        lock=timedelta(seconds=int(lock[1]) * (60 if lock[2] == "M" else 1)),
        sessions=wanted.get("requires_session", False),
        dead_letter_expired=wanted.get("dead_lettering_on_message_expiration", False),
    )


def _window(*, of: bool) -> timedelta | None:
    return timedelta(minutes=10) if of else None
