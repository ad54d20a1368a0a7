"""Classes and their arguments: what a name means, what an argument may hold, and both in the words of a person."""
