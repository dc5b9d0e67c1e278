"""What the paper compares itself with: the same trainer, the same search, the same scores."""
