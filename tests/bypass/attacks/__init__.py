"""The attack classes: each module has a list ``TRIES`` of at least twenty different tries."""
