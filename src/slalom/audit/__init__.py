"""What a corpus says of a model: summaries of its explanations, and one SLALOM for all of it."""
