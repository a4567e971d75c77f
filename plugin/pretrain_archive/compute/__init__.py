"""Job specification, launch, observation and stop rules."""
