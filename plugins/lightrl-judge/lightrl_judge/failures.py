"""The ways in which there is no judgement; none of their messages holds the key."""

SHOWN = 80
"""Characters of a reply that a message repeats."""


class UnavailableError(ConnectionError):
    """The server did not answer this time; the request may be repeated."""

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        """
        Args:
            message: what happened.
            retry_after: seconds for which the server wants to be left alone.
        """
        super().__init__(message)
        self.retry_after = retry_after


class JudgeError(RuntimeError):
    """There is no judgement, and the same request would not bring one."""


class RefusedError(JudgeError):
    """The server does not take such a request: its key, its model or its fields are wrong."""


class BudgetSpentError(JudgeError):
    """No request may be sent any more."""


class WithheldError(JudgeError):
    """The model declined to answer, or a filter took its answer away."""


class TruncatedError(JudgeError):
    """The reply ended before the model did."""


class TooLargeError(JudgeError):
    """The server sends more than any judgement needs."""


class UnreadableError(JudgeError):
    """The reply holds no judgement of the form that was asked for, or several."""


def beginning(reply: str) -> str:
    """The first characters of a reply, in one line."""
    return repr(reply if len(reply) <= SHOWN else reply[:SHOWN] + "...")
