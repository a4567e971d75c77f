"""Make a pre-training run rebuildable as a decision."""

__version__ = "0.1.0"
