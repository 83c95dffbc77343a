"""The command `python -m servicebus_local`."""

import sys

from servicebus_local.command import main

sys.exit(main(sys.argv[1:]))
