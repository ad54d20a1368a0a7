"""Learning from data that is given: demonstrations, preferences, rankings."""
