"""Dropping jobs: a publisher, and what it reads and returns."""

from shared.azure import Connections as Connections
from shared.payload import Codec as Codec, Form as Form, Limits as Limits, SubmissionOptions as SubmissionOptions
from shared.publish import (
    Publisher as Publisher,
    Sent as Sent,
    read_csv as read_csv,
    read_file as read_file,
    read_parquet as read_parquet,
)
from shared.publish_stretches import OpenJob as OpenJob
