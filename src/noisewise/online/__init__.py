"""Learning on the fly from people who never reveal their value: questions that sharpen, answers that are noisy."""
