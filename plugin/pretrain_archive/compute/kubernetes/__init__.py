"""Launches on a Kubernetes cluster: one job per launch token, its members, why it waits, and how it ended."""
