"""Optimal private point estimates: one number, the best that any epsilon-private mechanism can give."""
