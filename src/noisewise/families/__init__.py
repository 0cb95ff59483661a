"""Conjugate families behind a noisy sufficient statistic: their region moments and the noise-aware Gibbs samplers."""
