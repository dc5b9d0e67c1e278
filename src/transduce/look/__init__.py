"""Pictures of what a run is and does."""
