"""Choosing what to share before any record is touched: how much a plan's release would tell about the parameters."""
