"""Unique numbers from one small blob."""

from shared.azure import BlobStore as BlobStore
from shared.azure import connect as connect
from shared.ids import RangeGenerator as RangeGenerator
from shared.ids import Sizing as Sizing
from shared.ids import resume as resume
