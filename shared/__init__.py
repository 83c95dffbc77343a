"""The work of Sluice, without trigger types, environment variables or anything from `functions`.

Reading order: `topology` (every entity by name), then the package of the capability at hand.
"""

__version__ = "0.5.0"
