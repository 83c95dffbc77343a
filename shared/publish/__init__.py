"""A publisher's library: encode, frame, store, and drop one message, in three lines of the publisher's own."""

from shared.publish.publisher import Publisher, Sent
from shared.publish.source import read_file

__all__ = ["Publisher", "Sent", "read_file"]
