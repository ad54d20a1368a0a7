"""The first text of an episode."""

from lightrl import Prompt

Opening = str | list[dict[str, str]]
"""A text, or the messages of a conversation."""


def first_text(prompt: Prompt, rules: str, shown: str, chat: bool) -> Opening:
    """The rules, then what the game shows at first.

    A prompt that has a text or messages of its own brings the rules itself.

    Args:
        prompt: the prompt of the episode.
        rules: what to do, for prompts with an empty text.
        shown: what the game shows at first; empty: nothing.
        chat: the text becomes the user's message.
    """
    if prompt.messages:
        return _continued(list(prompt.messages), shown)
    text = "\n".join(part for part in (prompt.text or rules, shown) if part)
    return [{"role": "user", "content": text}] if chat else text


def _continued(messages: list[dict[str, str]], shown: str) -> list[dict[str, str]]:
    """The conversation with what the game shows, in a message of the user: most chat templates refuse two of them in a row."""
    if not shown:
        return messages
    *before, last = messages
    if last["role"] != "user":
        return [*messages, {"role": "user", "content": shown}]
    return [*before, {**last, "content": f"{last['content']}\n{shown}"}]
