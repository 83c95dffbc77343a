"""What comes over HTTP: administration clients ask for entities, make some or remove some, and senders post messages."""

import re
import time
from collections.abc import Callable, Iterable

from servicebus_local.atom import Markup, Page, entry, error, feed
from servicebus_local.broker import Broker
from servicebus_local.descriptions import (
    namespace_content,
    queue_content,
    rule_content,
    subscription_content,
    topic_content,
)
from servicebus_local.entities import Subscription, Topic
from servicebus_local.entity_requests import read_entity, read_filter, read_subscription
from servicebus_local.http import Answer, Request
from servicebus_local.post import addressee, encoded
from servicebus_local.refusal import NOT_FOUND, TOO_LARGE, Refusal, not_implemented
from servicebus_local.rules import Rules
from servicebus_local.sender import take
from servicebus_local.tokens import Gatekeeper, Right, demand

_PAGE = 100
#: The status by which a message is refused: there is no such queue or topic, or the message is too large.
_STATUSES = {NOT_FOUND: 410, TOO_LARGE: 403}
_BELOW_TOPIC = re.compile(
    r"(?P<topic>.+)/subscriptions(?:/(?P<subscription>[^/]+)(?:/(?P<rules>rules)(?:/(?P<rule>[^/]+))?)?)?",
    re.IGNORECASE,
)


class Administration:
    """Answers the requests over HTTP to a broker."""

    def __init__(
        self, broker: Broker, gatekeeper: Gatekeeper | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._broker = broker
        self._gatekeeper = gatekeeper
        #: The broker's entities are as old as the broker.
        self._made = clock()

    def __call__(self, request: Request) -> Answer:
        """Answer one request."""
        try:
            if (name := addressee(request)) is not None:
                return self._post(name, request)
            self._admit(request, request.path.strip("/"), Right.MANAGE)
            return self._answer(request)
        except Refusal as refusal:
            return Answer(refusal.status, error(refusal.status, refusal.description))

    def _post(self, name: str, request: Request) -> Answer:
        """Take one message in. The service has statuses of its own for what refuses it."""
        self._admit(request, name, Right.SEND)
        try:
            take(self._broker.intake(name), encoded(request))
        except Refusal as refusal:
            status = _STATUSES.get(refusal.condition, refusal.status)
            raise Refusal(refusal.condition, refusal.description, status) from refusal
        return Answer(201, "")

    def _answer(self, request: Request) -> Answer:
        if request.method == "DELETE":
            self._delete(request.path.strip("/"))
            return Answer(200, "")
        if request.method == "PUT" and "if-match" not in request.headers:
            self._create(request.path.strip("/"), request.body)
        elif request.method != "GET":
            raise not_implemented(f"{request.method} {request.path}: it makes and removes entities, and changes none")
        listing = _Listing(self._broker, request, self._made)
        return Answer(201 if request.method == "PUT" else 200, listing.document())

    def _create(self, path: str, body: bytes) -> None:
        below = _BELOW_TOPIC.fullmatch(path)
        if below is None:
            self._broker.create(read_entity(path, body))
        elif below["rule"]:
            _rules(self._broker, below).add(below["rule"], read_filter(body))
        elif below["subscription"]:
            self._broker.create_subscription(below["topic"], read_subscription(below["subscription"], body))

    def _delete(self, path: str) -> None:
        below = _BELOW_TOPIC.fullmatch(path)
        if below is None:
            self._broker.delete(path)
        elif below["rule"]:
            _rules(self._broker, below).remove(below["rule"])
        elif below["subscription"]:
            self._broker.delete_subscription(below["topic"], below["subscription"])

    def _admit(self, request: Request, path: str, right: Right) -> None:
        if self._gatekeeper is not None:
            scope = self._gatekeeper.scope(request.headers.get("authorization", ""))
            demand([scope], path, (right,), time.time())


class _Listing:
    """The answer to one request."""

    def __init__(self, broker: Broker, request: Request, made: float) -> None:
        self._broker = broker
        self._namespace = broker.namespace
        self._path = request.path.strip("/")
        self._base = f"https://{request.headers.get('host', 'localhost')}"
        self._page = Page(_number(request.query.get("$skip"), 0), _number(request.query.get("$top"), _PAGE))
        self._made = made

    def document(self) -> Markup:
        """Return what is at the path. The service answers for an unknown entity with an empty list."""
        lists = {"$resources/queues": self._queues, "$resources/topics": self._topics}
        found = lists.get(self._path.lower())
        if found is not None:
            return self._feed(found())
        if self._path.lower() == "$namespaceinfo":
            content = namespace_content(self._base.partition("//")[2], self._made)
            return self._entry(self._path, self._path, "NamespaceInfo", content)
        below = _BELOW_TOPIC.fullmatch(self._path)
        if below is not None:
            return self._below_topic(below)
        return self._one([*self._queues(self._path), *self._topics(self._path)])

    def _below_topic(self, below: re.Match[str]) -> Markup:
        topics = [one for one in self._namespace.topics if one.name.lower() == below["topic"].lower()]
        wanted = (below["subscription"] or "").lower()
        if not wanted:
            return self._feed(self._subscription(topic, one) for topic in topics for one in topic.subscriptions)
        found = [(topic, one) for topic in topics for one in topic.subscriptions if one.name.lower() == wanted]
        if below["rules"] is None:
            return self._one([self._subscription(topic, one) for topic, one in found])
        rules = [rule for topic, one in found for rule in self._rules(topic, one, below["rule"])]
        return self._feed(rules) if below["rule"] is None else self._one(rules)

    def _queues(self, name: str | None = None) -> list[Markup]:
        return [
            self._entry(
                one.name,
                one.name,
                "QueueDescription",
                queue_content(one, self._broker.counts(one.name), self._made),
            )
            for one in self._namespace.queues
            if name is None or one.name.lower() == name.lower()
        ]

    def _topics(self, name: str | None = None) -> list[Markup]:
        return [
            self._entry(
                one.name,
                one.name,
                "TopicDescription",
                topic_content(one, self._broker.counts(one.name), self._made),
            )
            for one in self._namespace.topics
            if name is None or one.name.lower() == name.lower()
        ]

    def _subscription(self, topic: Topic, one: Subscription) -> Markup:
        path = f"{topic.name}/Subscriptions/{one.name}"
        content = subscription_content(one, self._broker.counts(path), self._made)
        return self._entry(path, one.name, "SubscriptionDescription", content)

    def _rules(self, topic: Topic, one: Subscription, wanted: str | None) -> list[Markup]:
        path = f"{topic.name}/Subscriptions/{one.name}"
        rules = self._broker.outlet(path).rules
        return [
            self._entry(f"{path}/Rules/{name}", name, "RuleDescription", rule_content(name, given, self._made))
            for name, given in (rules.listed() if rules else ())
            if wanted is None or name == wanted
        ]

    def _entry(self, path: str, title: str, kind: str, content: Markup) -> Markup:
        return entry(f"{self._base}/{path}?api-version=2021-05", title, kind, content, self._made)

    def _one(self, found: list[Markup]) -> Markup:
        return found[0] if found else self._feed(())

    def _feed(self, entries: Iterable[Markup]) -> Markup:
        some = list(entries)[self._page.skip :]
        address = f"{self._base}/{self._path}?api-version=2021-05"
        return feed(address, self._path, some, self._page, self._made)


def _rules(broker: Broker, below: re.Match[str]) -> Rules:
    path = f"{below['topic']}/Subscriptions/{below['subscription']}"
    rules = broker.outlet(path).rules
    if rules is None:
        raise Refusal(NOT_FOUND, f"the messaging entity {path!r} has no rules: it is no subscription", 404)
    return rules


def _number(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isdecimal() else default
