"""The command `python -m local.servicebus`."""

import sys

from local.servicebus.command import main

sys.exit(main(sys.argv[1:]))
