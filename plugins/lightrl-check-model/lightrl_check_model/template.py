"""Checks of a chat template: conversations must reach the policy as they are, and its turns must stay as it said them."""

from collections.abc import Iterator

from lightrl import Policy, Prompt
from lightrl.text.turn_encoder import TurnEncoder
from lightrl_check_model.check import Check

QUESTION = "What is 2 + 2?"
TOOL = {
    "type": "function",
    "function": {
        "name": "look_up_weather",
        "description": "Tell the weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


def template_checks(policy: Policy) -> Iterator[Check]:
    """Try the chat template of a policy.

    Args:
        policy: whose tokenizer may have a chat template.
    """
    tokenizer = policy.tokenizer
    if not tokenizer.chat_template:
        yield Check("chat template", says="there is none: prompts are plain text")
        return
    asked: list[dict[str, str]] = [{"role": "user", "content": QUESTION}]
    answered = [*asked, {"role": "assistant", "content": "four"}]
    try:
        sentences = TurnEncoder(tokenizer, policy.eos_token_ids).check()
    except ValueError as error:
        yield Check("append-only template", says=str(error), outcome="refused")
    else:
        says = " ".join(sentences) or "earlier turns stay as they are"
        yield Check("append-only template", says=says, outcome="handled" if sentences else "exact")
    closing = tokenizer.apply_chat_template(answered, tokenize=False).rpartition("four")[2]
    ids = tokenizer.encode(closing, add_special_tokens=False)
    if policy.eos_token_ids.intersection(ids):
        yield Check("end of a turn", says=repr(closing), outcome="exact")
    else:
        known = tokenizer.convert_ids_to_tokens(sorted(policy.eos_token_ids))
        says = f"the template ends an answer with {closing!r}, and generation ends at {known}: no answer would end"
        yield Check("end of a turn", says=says, outcome="wrong")
    spelled = [{"role": "user", "content": f"{QUESTION}{tokenizer.eos_token}"}]
    plain, marked = (policy.encode(Prompt(id="0", messages=tuple(messages))) for messages in (asked, spelled))
    more = sum(marked.count(end) - plain.count(end) for end in policy.eos_token_ids)
    yield Check("control tokens in content", ours=float(more), says=f"{tokenizer.eos_token} in a question stays text", limit=0.0)
    shown = tokenizer.apply_chat_template(asked, tools=[TOOL], tokenize=False)
    if "look_up_weather" in shown:
        yield Check("tools in the template", says="shown", outcome="exact")
    else:
        yield Check("tools in the template", says="not shown: the environment must describe them (describe: true)")
