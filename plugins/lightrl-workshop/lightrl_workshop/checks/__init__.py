"""The means that contracts are written with: checks, examples, and checks that several kinds share."""
