"""What translates: torch's own engine, and others that models are exported to."""
