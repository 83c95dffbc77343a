"""The errors that publishers, worker processes, generators of ids and workloads may meet."""

from shared.errors import (
    ContentionError as ContentionError,
    GateCorruptError as GateCorruptError,
    GeneratorClosedError as GeneratorClosedError,
    IdsError as IdsError,
    NameRefusedError as NameRefusedError,
    NewerVersionError as NewerVersionError,
    RefusedError as RefusedError,
    ReleaseExpiredError as ReleaseExpiredError,
    SequenceCorruptError as SequenceCorruptError,
    SequenceExhaustedError as SequenceExhaustedError,
    SequenceLostError as SequenceLostError,
    SequenceRestoredError as SequenceRestoredError,
    SettingsError as SettingsError,
    SluiceError as SluiceError,
    StorageUnavailableError as StorageUnavailableError,
    WaitExpiredError as WaitExpiredError,
)
