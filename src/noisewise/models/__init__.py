"""What can be learnt: the protocol of a model, the base that owns its posterior, and the list of models by name."""
