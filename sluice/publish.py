"""Dropping jobs: a publisher, and what it reads and returns."""

from shared.azure import Connections as Connections
from shared.payload import Codec as Codec
from shared.payload import Form as Form
from shared.payload import Limits as Limits
from shared.payload import SubmissionOptions as SubmissionOptions
from shared.publish import Publisher as Publisher
from shared.publish import Sent as Sent
from shared.publish import read_file as read_file
