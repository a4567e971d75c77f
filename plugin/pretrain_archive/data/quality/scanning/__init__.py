"""Measure the documents of a corpus: jobs, processes, the numbers of each document, and what was found."""
