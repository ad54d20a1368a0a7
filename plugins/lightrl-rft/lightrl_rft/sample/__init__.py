"""`lightrl sample`: draw, score, keep."""
