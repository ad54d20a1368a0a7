"""The verb that puts the logs of runs into one page."""
