"""Sensitive content of a text: personal data, secrets and declared forbidden terms.

Findings say kind and place and never hold text, so that no report, log or XCom can repeat what was found.
"""

from pretrain_archive.data.quality.sensitive.detector import Detector, count_by_kind
from pretrain_archive.data.quality.sensitive.finding import Finding
from pretrain_archive.data.quality.sensitive.masking import mask
from pretrain_archive.data.quality.sensitive.settings import KINDS, Settings, read_terms

__all__ = ["KINDS", "Detector", "Finding", "Settings", "count_by_kind", "mask", "read_terms"]
