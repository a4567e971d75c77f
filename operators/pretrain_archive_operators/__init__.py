"""Airflow operators of pretrain-archive: thin, each calls one use case and returns a small JSON value."""

from __future__ import annotations

from pretrain_archive_operators.archive_close import ArchiveCloseOperator, TemporaryCleanOperator
from pretrain_archive_operators.checkpoint_register import CheckpointRegisterOperator
from pretrain_archive_operators.data_process import DataProcessOperator
from pretrain_archive_operators.data_snapshot import DataSnapshotOperator
from pretrain_archive_operators.evaluate import EvaluateOperator
from pretrain_archive_operators.gate_approval import GateApprovalOperator
from pretrain_archive_operators.gpu_launch import GpuLaunchOperator
from pretrain_archive_operators.human_evaluation import (
    HumanReportOperator,
    HumanReviewOperator,
    HumanSampleOperator,
)
from pretrain_archive_operators.label_review import (
    LabelReviewOperator,
    LabelSampleOperator,
    LabelSummaryOperator,
)
from pretrain_archive_operators.open_run import OpenRunOperator
from pretrain_archive_operators.quality_check import QualityCheckOperator
from pretrain_archive_operators.recovery_drill import RecoveryDrillOperator
from pretrain_archive_operators.register_source import RegisterSourceOperator
from pretrain_archive_operators.retention import (
    RetentionApplyOperator,
    RetentionApprovalOperator,
    RetentionPlanOperator,
    RetentionReportOperator,
)
from pretrain_archive_operators.snapshot_parts import (
    SnapshotMergeOperator,
    SnapshotPartOperator,
    SnapshotPlanOperator,
)
from pretrain_archive_operators.unfollowed_jobs import UnfollowedJobsOperator

__all__ = [
    "ArchiveCloseOperator",
    "CheckpointRegisterOperator",
    "DataProcessOperator",
    "DataSnapshotOperator",
    "EvaluateOperator",
    "GateApprovalOperator",
    "GpuLaunchOperator",
    "HumanReportOperator",
    "HumanReviewOperator",
    "HumanSampleOperator",
    "LabelReviewOperator",
    "LabelSampleOperator",
    "LabelSummaryOperator",
    "OpenRunOperator",
    "QualityCheckOperator",
    "RecoveryDrillOperator",
    "RegisterSourceOperator",
    "RetentionApplyOperator",
    "RetentionApprovalOperator",
    "RetentionPlanOperator",
    "RetentionReportOperator",
    "SnapshotMergeOperator",
    "SnapshotPartOperator",
    "SnapshotPlanOperator",
    "TemporaryCleanOperator",
    "UnfollowedJobsOperator",
]
