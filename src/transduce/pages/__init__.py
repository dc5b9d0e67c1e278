"""CSS and JavaScript that several pages share. Imports nothing."""
