"""The servers that the composition brings as images."""

from tests.support.postgres import postgres_server
from tests.support.s3 import s3_endpoint

__all__ = ["postgres_server", "s3_endpoint"]
