"""The site: what its pages are made of, beside the texts of docs/."""
