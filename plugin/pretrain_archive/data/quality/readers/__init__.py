"""One reader a format; ``documents.read_texts`` chooses between them."""
