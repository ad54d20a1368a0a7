"""Games in the form of other frameworks."""
