"""Published methods that read the records themselves: for comparison in studies and tests, never for a release."""
