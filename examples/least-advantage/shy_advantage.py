"""The least there is to an advantage of one's own: `cat examples/least-advantage/* | wc -l`."""

from lightrl import Advantage, Advantages, Experience, broadcast_to_tokens, hookimpl


class ShyAdvantage(Advantage):
    """Learns only from what scored above zero: A_i = max(R_i, 0)."""

    def compute(self, experience: Experience) -> Advantages:
        return Advantages(broadcast_to_tokens(experience.rewards.clamp(min=0), experience))


@hookimpl
def lightrl_advantages() -> list[type[Advantage]]:
    return [ShyAdvantage]
