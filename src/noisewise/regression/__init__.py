"""Linear regression from noisy moments: one method a file, any number of holders."""
