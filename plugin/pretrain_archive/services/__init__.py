"""Use cases, one per operator, and the composition root that builds ledger, store and policy from settings.

Operators, pages and command line call these; everything below receives its collaborators as parameters.
"""

from __future__ import annotations

from pretrain_archive.services.wiring import open_ledger, open_store, policy

__all__ = ["open_ledger", "open_store", "policy"]
