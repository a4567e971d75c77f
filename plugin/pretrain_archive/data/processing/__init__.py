"""Carry out rules of processing: from one snapshot to the next, with an account of everything that is left out.

A step reads its input shard by shard and never changes a kept byte (cleaning rewrites, and says so): a plain file
is one document and is kept or left out as a whole; a list of documents (JSON Lines, packed or not) is written again
with the kept lines. Nothing depends on the order of reading, on threads or on chance.
"""
