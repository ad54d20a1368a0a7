"""Why a run of benchmarks/learning/chat_models.py stayed below its threshold, as far as it was looked into."""

REASONS: dict[tuple[str, str], str] = {
    ("reward_model", "reward_model"): (
        "not settled. Five evaluations over 31 steps stay near chance (0.385, 0.474, 0.538, 0.449, 0.462 of 78 comparisons): nothing that "
        "holds for other sums was learnt. It learns from 55 sums, and its head begins at random. Results made from now on have the loss of "
        "every step and the accuracy on what was learnt from, which tell learning by heart from learning nothing."
    ),
}
"""By task and algorithm."""
