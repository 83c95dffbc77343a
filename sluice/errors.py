"""The errors that publishers, worker processes, generators of ids and workloads may meet."""

from shared.errors import ContentionError as ContentionError
from shared.errors import GateCorruptError as GateCorruptError
from shared.errors import GeneratorClosedError as GeneratorClosedError
from shared.errors import IdsError as IdsError
from shared.errors import NameRefusedError as NameRefusedError
from shared.errors import RefusedError as RefusedError
from shared.errors import ReleaseExpiredError as ReleaseExpiredError
from shared.errors import SequenceCorruptError as SequenceCorruptError
from shared.errors import SequenceExhaustedError as SequenceExhaustedError
from shared.errors import SequenceLostError as SequenceLostError
from shared.errors import SequenceRestoredError as SequenceRestoredError
from shared.errors import SettingsError as SettingsError
from shared.errors import SluiceError as SluiceError
from shared.errors import StorageUnavailableError as StorageUnavailableError
from shared.errors import WaitExpiredError as WaitExpiredError
