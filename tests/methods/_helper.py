"""A file whose name starts with an underscore is no method."""

raise RuntimeError("a helper was taken for a method")
