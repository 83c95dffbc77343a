"""The list: every property of storage and of the bus that Sluice relies on, and the page about the part that fails without it."""

from collections.abc import Mapping
from typing import Final, NamedTuple

BLOB, TABLE, QUEUE, BUS = "blob", "table", "queue", "bus"


class Property(NamedTuple):
    """One promise of a service."""

    #: Its service and its name: people type it.
    key: str
    what: str
    #: The page of docs/ that says which part of Sluice fails without it.
    page: str

    @property
    def service(self) -> str:
        """The service that makes the promise."""
        return self.key.partition(".")[0]


_LIST: Final = (
    Property("blob.insert", "If-None-Match: * refuses to overwrite a blob", "ledger"),
    Property("blob.condition", "a write or a read with an old ETag is refused", "gate"),
    Property("blob.etag", "each write gives a blob another ETag, also a write of the same bytes", "ids"),
    Property("blob.unchanged", "a read with If-None-Match and the current ETag says 304", "concurrency"),
    Property("blob.range", "a ranged read returns exactly its bytes", "formats"),
    Property("blob.listing", "a listing is in the order of names, and its pages have each blob once", "gate"),
    Property("blob.batch", "a batch of deletions leaves a blob whose ETag is another one", "operating"),
    Property("blob.lease", "a leased blob takes no second lease, and no write without its id", "dequeue"),
    Property("blob.lease_end", "a lease that is not renewed ends by itself", "dequeue"),
    Property("table.insert", "an insert of a row that is there is refused", "ledger"),
    Property("table.condition", "a write or a deletion with an old ETag is refused", "ledger"),
    Property("table.etag", "each write gives a row another ETag", "ledger"),
    Property("table.atomic", "a batch with one refused row writes none of its rows", "ledger"),
    Property("table.limit", "a batch of 101 rows, or with a row twice, is refused", "ledger"),
    Property("table.merge", "a merge keeps the fields that it does not name", "processes"),
    Property("table.replace", "a replacement drops the fields that it does not name", "ledger"),
    Property("table.order", "a query returns rows in the order of their keys", "processes"),
    Property("table.range", "a query for a range of keys returns the rows of that range", "design"),
    Property("table.pages", "a query in pages returns each row once", "processes"),
    Property("table.select", "$select returns the named fields alone", "gate"),
    Property("table.date", "a reply has the time of its service, near that of this machine", "gate"),
    Property("queue.visibility", "a taken message is invisible to others for its time, and then comes back", "dequeue"),
    Property("queue.count", "each delivery of a message raises its count", "parked"),
    Property("queue.receipt", "a receipt is refused once the message was delivered again or renewed", "dequeue"),
    Property("queue.delay", "a message that is put with a delay is invisible until then", "design"),
    Property("queue.depth", "the count of messages is no lower than their number, with those that are taken", "ledger"),
    Property("queue.forever", "a message with a life of -1 never expires", "gate"),
    Property("queue.peek", "peeking at a message neither takes it nor counts as a delivery", "ledger"),
    Property("bus.duplicates", "a second message with the same id is dropped in the window", "processes"),
    Property("bus.lock", "a locked message goes to no other receiver", "dequeue"),
    Property("bus.lock_end", "a lock that is not renewed ends, and the message comes back", "ledger"),
    Property("bus.late", "who completes a message after its lock removes nothing", "ledger"),
    Property("bus.count", "an abandoned message, and one whose lock ended, count one delivery more", "parked"),
    Property("bus.dead", "a message goes to the dead letters after its last delivery, and says why", "parked"),
    Property("bus.schedule", "a scheduled message comes at its time and not before", "processes"),
    Property("bus.expiry", "a message whose life has ended is not delivered", "gate"),
    Property("bus.filter", "a subscription gets what its filter passes and nothing else", "gate"),
    Property("bus.fifo", "messages of a session come in the order in which they were sent", "design"),
    Property("bus.holder", "a session has one holder", "design"),
    Property("bus.again", "an abandoned message of a session comes before later ones", "design"),
    Property("bus.session_end", "a session that is not renewed is free for others, its messages in order", "design"),
)
PROPERTIES: Final[Mapping[str, Property]] = {one.key: one for one in _LIST}
