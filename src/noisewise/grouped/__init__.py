"""Groups: any law of one column for each level of another, or for each holder, with parameters apart or pooled."""
