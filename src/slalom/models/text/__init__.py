"""From a text to the ids that a model takes, and back to strings and places in the text."""
