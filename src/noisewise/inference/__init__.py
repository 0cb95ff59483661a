"""From a release to a posterior: the target on the real line, kernels, runs and their verdicts."""
