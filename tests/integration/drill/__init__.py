"""Recovery drills with real workers."""
