"""Sources, manifests, snapshots and quality."""
