"""Statistics: what is computed from records, with its joint sensitivity."""
