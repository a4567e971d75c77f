"""The Kubernetes target of the bypass suite."""
