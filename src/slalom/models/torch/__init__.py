"""Models in torch: forward passes, gradients, attention weights, and cheaper engines."""
