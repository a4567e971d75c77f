"""The quality report as a page that people read: one file, no script, nothing from outside, two languages."""
