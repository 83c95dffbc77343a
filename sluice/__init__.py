"""Sluice for your own code: the names that stay.

Publishers, worker processes and workloads import from these modules and from nothing else. A name that is here changes
its meaning or goes by a major version only.

- `sluice.workloads`: the parts of a workload
- `sluice.capability`: the parts of a capability
- `sluice.processes`: the parts of a process manager
- `sluice.publish`: dropping jobs
- `sluice.waiting`: waiting for a gate
- `sluice.ids`: unique numbers
- `sluice.errors`: the errors of all of these
- `sluice.testing`: trying a workload or a process, without a stack
"""

from shared import __version__ as __version__
