"""Where a check is computed: on this machine or on Spark, with the same answers."""
