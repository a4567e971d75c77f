"""What pages say of how the platform is run and of what was learnt, in English and 简体中文."""

from __future__ import annotations

GOVERNANCE: dict[str, tuple[str, str]] = {
    "kind.experiment.concluded": ("Conclusion recorded", "实验结论已记录"),
}
