"""Every error of the package: what was expected, what came, what to do next."""

from __future__ import annotations


class ArchiveError(Exception):
    """Base of all errors that the package raises on purpose.

    ``code`` is stable and meant for scripts; ``hint`` says what to do next. ``exit_code`` is the
    command line's answer: 1 a finding, 2 wrong use or unreadable input, 4 refused by policy.
    """

    code = "archive_error"
    exit_code = 2

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        stop = "." if self.hint and self.message and self.message[-1] not in ".!?:。？" else ""
        return f"{self.message}{stop} {self.hint}".strip()


class InputError(ArchiveError):
    """A value that a person gave cannot be used: names field, value and remedy."""

    code = "bad_input"

    def __init__(self, field: str, value: object, problem: str, *, hint: str = "") -> None:
        super().__init__(f"{field}: {problem} (got {value!r}).", hint=hint)
        self.field = field
        self.value = value


class PolicyError(ArchiveError):
    """The project's policy file is missing or wrong."""

    code = "bad_policy"


class RefusedError(ArchiveError):
    """Policy or missing evidence forbids the act; nothing was done."""

    code = "refused"
    exit_code = 4

    def __init__(self, message: str, *, reasons: tuple[str, ...] = (), hint: str = "") -> None:
        super().__init__(message if not reasons else f"{message}: {'; '.join(reasons)}.", hint=hint)
        self.reasons = reasons


class LedgerError(ArchiveError):
    """The ledger cannot be used as it stands."""

    code = "ledger"


class LedgerUnavailableError(LedgerError):
    """The database cannot be reached; the message names the connection, never its password."""

    code = "ledger_unavailable"


class ClusterUnavailableError(ArchiveError):
    """The cluster's API does not answer; the message names its address. A later try may succeed."""

    code = "cluster_unavailable"


class IdempotencyConflictError(LedgerError):
    """The same step wrote different content under the same key."""

    code = "idempotency_conflict"


class AlreadyRecordedError(LedgerError):
    """A ledger-wide unique key (a launch token, a close) is taken by ``record_id``."""

    code = "already_recorded"
    exit_code = 4

    def __init__(self, message: str, *, record_id: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.record_id = record_id


class StreamMovedError(LedgerError):
    """The stream got a record that the writer had not seen when it checked: nothing was written."""

    code = "stream_moved"
    exit_code = 4


class BehindAnchorError(LedgerError):
    """An anchor knows more records than the database: appending is refused (invariant 2)."""

    code = "behind_anchor"
    exit_code = 4


class AskedToEndError(ArchiveError):
    """The task was asked to end before it had started anything; a later try may start."""

    code = "asked_to_end"
    exit_code = 4


class StillRunningError(ArchiveError):
    """An attempt of the run shows signs of life: nothing was started and nothing was ended."""

    code = "still_running"
    exit_code = 4


class SourceError(ArchiveError):
    """A data source is missing, empty or unreadable."""

    code = "bad_source"


class SourceChangedError(SourceError):
    """Files changed while they were read: no version is made; ``paths`` names them (escaped)."""

    code = "source_changed"
    exit_code = 1

    def __init__(self, message: str, *, paths: tuple[str, ...], hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.paths = paths


class StorageError(ArchiveError):
    """A store refused or lost an operation; names the location."""

    code = "storage"


class CheckpointError(ArchiveError):
    """A checkpoint is incomplete, truncated or lies about itself: it is not registered."""

    code = "bad_checkpoint"
    exit_code = 1


class EvaluationFailedError(ArchiveError):
    """An evaluation program ended without numbers; a later try may give them.

    ``exit_code_of_program`` is None where it was ended for taking too long.
    """

    code = "evaluation_failed"
    exit_code = 1

    def __init__(
        self, message: str, *, exit_code_of_program: int | None, detail: str, hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.exit_code_of_program = exit_code_of_program
        self.detail = detail


class PackageError(ArchiveError):
    """A package cannot be written or read."""

    code = "bad_package"


class NotAvailableError(ArchiveError):
    """A command or form of a later release."""

    code = "not_available"
