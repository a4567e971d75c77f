"""Objects on a file system or in S3."""
