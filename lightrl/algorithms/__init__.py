"""Algorithms: parts in slots. A variant states its smallest difference from a parent."""
