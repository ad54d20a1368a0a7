"""Files and the words of a command, read into settings in the order in which they were given; refusals are worded here."""
