"""Terms and their translations."""
