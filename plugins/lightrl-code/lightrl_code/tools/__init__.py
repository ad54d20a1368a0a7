"""Tools: typed Python functions that the policy may call in its turns."""
