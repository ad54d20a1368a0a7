"""What is checked and chosen before a run begins."""
