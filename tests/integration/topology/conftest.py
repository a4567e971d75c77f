"""The servers that the composition brings as images."""

from tests.support.postgres import postgres_server as postgres_server
from tests.support.s3 import s3_endpoint as s3_endpoint
