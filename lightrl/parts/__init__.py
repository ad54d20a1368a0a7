"""The kinds of parts, one file each: the abstract class and the textbook implementations."""
