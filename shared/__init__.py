"""What the work is: no trigger types, no environment, nothing of `functions`.

Reading order: `topology` (every entity by name), then the package of the capability at hand.
"""

__version__ = "0.1.0"
