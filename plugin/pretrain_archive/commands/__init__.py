"""The sub-commands of ``pretrain-archive``, one module per word; each imports what it needs when it runs."""
