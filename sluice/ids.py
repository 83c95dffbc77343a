"""Unique numbers from one small blob."""

from shared.azure import BlobStore as BlobStore, connect as connect
from shared.ids import RangeGenerator as RangeGenerator, Sizing as Sizing, resume as resume
