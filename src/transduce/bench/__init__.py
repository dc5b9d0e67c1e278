"""What is measured, side by side with peers: the same work in the same run on the same machine."""
