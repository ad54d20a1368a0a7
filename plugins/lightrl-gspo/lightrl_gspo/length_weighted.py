"""LUSPO's aggregation: a completion weighs as much as it is long."""

from lightrl import SequenceSum


class LengthWeightedMean(SequenceSum):
    """The mean over rows of a row's value times its length, for ratios that give a row one value.

    w = m / S: the value of a row is on each of its L tokens, so that it is counted L times.

    Source: 2026 (LUSPO), "Length-unbiased sequence policy optimization", arXiv:2602.05261.
    """

    divides_by_row_length = True
    exceptions = {
        "divides_by_row_length is declared if and only if long rows weigh as much as short ones": "it is made for ratios that give a row "
        "one value, and counts that once per token on purpose"
    }
