"""A policy from a GGUF file: the numbers, tokens and ends of the folder that the file was made of, or a refusal that says why."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf.quants import dequantize, quantize
from tokenizers.pre_tokenizers import ByteLevel
from transformers import AutoModelForCausalLM, LlamaConfig

from lightrl import Policy, PretrainedPolicy, Prompt
from lightrl.ops.lazy import lazy_in

LETTERS = sorted(ByteLevel.alphabet())
TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *LETTERS, "he", "ll", "hell"]
MERGES = ["h e", "l l", "he ll"]
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
CONFIG = LlamaConfig(
    vocab_size=len(TOKENS), hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=128, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2, pad_token_id=0, rms_norm_eps=1e-5,
)  # fmt: skip
NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "model.layers": "blk",
}  # fmt: skip
Q8, F32 = gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.F32


def written(path: Path, kind: Any = F32, architecture: str = "llama", **numbers: int) -> tuple[Path, Any]:
    """A tiny Llama as a GGUF file, and as a model with the very same weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model: Any = AutoModelForCausalLM.from_config(CONFIG)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("tiny")
    writer.add_context_length(128)
    writer.add_embedding_length(64)
    writer.add_block_count(2)
    writer.add_feed_forward_length(96)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_rope_dimension_count(16)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(TOKENS)
    writer.add_token_types([gguf.TokenType.CONTROL] * 3 + [gguf.TokenType.NORMAL] * (len(TOKENS) - 3))
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)
    for key, number in numbers.items():
        writer.add_uint32(key.replace("__", "."), number)
    for name, parameter in model.named_parameters():
        rows = parameter.detach().numpy()
        stored = quantize(rows, kind) if rows.ndim == 2 else rows
        with torch.no_grad():
            parameter.copy_(torch.tensor(dequantize(stored, kind) if rows.ndim == 2 else rows))
        for ours, theirs in NAMES.items():
            name = name.replace(ours, theirs)
        if heads := {"attn_q": 4, "attn_k": 2}.get(name.split(".")[-2]):
            # llama.cpp turns neighbours where transformers turns halves
            stored = stored.reshape(heads, 2, len(stored) // heads // 2, -1).swapaxes(1, 2).reshape(stored.shape)
        writer.add_tensor(name, np.ascontiguousarray(stored), raw_dtype=kind if rows.ndim == 2 else None)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path, model


def logprobs(policy: Policy) -> torch.Tensor:
    ids = torch.arange(3, 43)[None]
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[:, 0] = False
    return policy(ids, mask).logprobs


@pytest.mark.parametrize("kind", [F32, Q8], ids=["F32", "Q8_0"])
def test_its_log_probs_are_those_of_the_plain_folder_with_the_same_weights(kind: Any, tmp_path: Path) -> None:
    path, model = written(tmp_path / "tiny.gguf", kind)
    policy = PretrainedPolicy(str(path)).build()
    Policy(model, policy.tokenizer).save(tmp_path / "plain")
    torch.testing.assert_close(logprobs(policy), logprobs(PretrainedPolicy(str(tmp_path / "plain")).build()))
    assert policy.training
    assert all(parameter.requires_grad for parameter in policy.parameters())
    assert policy.model.lm_head.weight is policy.model.model.embed_tokens.weight


def test_it_is_saved_as_a_plain_folder(tmp_path: Path) -> None:
    path, _ = written(tmp_path / "tiny.gguf", Q8)
    policy = PretrainedPolicy(str(path)).build()
    policy.save(tmp_path / "saved")
    config = json.loads((tmp_path / "saved" / "config.json").read_text())
    assert "quantization_config" not in config
    assert "tmp" not in config.get("_name_or_path", "")
    again = PretrainedPolicy(str(tmp_path / "saved")).build()
    assert torch.equal(logprobs(again), logprobs(policy))
    assert again.eos_token_ids == policy.eos_token_ids
    assert again.tokenizer.chat_template == policy.tokenizer.chat_template == TEMPLATE


def test_it_has_the_tokens_template_and_ends_of_the_file(tmp_path: Path) -> None:
    policy = PretrainedPolicy(str(written(tmp_path / "tiny.gguf", tokenizer__ggml__eot_token_id=1)[0])).build()
    ids = policy.encode(Prompt(id="0", messages=({"role": "user", "content": "hell o"},)))
    assert [TOKENS[i] for i in ids] == [
        "<|im_start|>", *"user", "Ċ", "hell", "Ġ", "o", "<|im_end|>", "Ċ", "<|im_start|>", *"assistant", "Ċ"
    ]  # fmt: skip
    assert policy.eos_token_ids == {1, 2}
    assert policy.decode(ids) == "user\nhell o\nassistant\n"


def test_dtype_outline_and_lazy_weights(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = PretrainedPolicy(str(written(tmp_path / "tiny.gguf", Q8)[0]), dtype="bfloat16")
    with caplog.at_level(logging.WARNING, logger="lightrl"):
        policy = source.build_lazy()
    assert "a GGUF file is dequantized as a whole" in caplog.text
    assert lazy_in(policy) == []
    assert {parameter.dtype for parameter in policy.parameters()} == {torch.bfloat16}
    assert source.parameters() == sum(p.numel() for p in policy.parameters())


def test_it_is_parsed_once_for_configuration_and_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, parsed, reader = written(tmp_path / "tiny.gguf")[0], list[int](), gguf.GGUFReader
    built = reader._build_fields

    def counted(self: gguf.GGUFReader, *given: int) -> int:
        parsed.append(1)
        return built(self, *given)

    monkeypatch.setattr(reader, "_build_fields", counted)
    PretrainedPolicy(str(path)).build()
    assert 1 <= len(parsed) <= 2
    assert gguf.GGUFReader is reader


def test_files_beside_it_are_not_read(tmp_path: Path) -> None:
    path, _ = written(tmp_path / "tiny.gguf")
    code = f"open({str(tmp_path / 'executed')!r}, 'w')\nclass Own: pass\n"
    (tmp_path / "own.py").write_text(code)
    (tmp_path / "config.json").write_text('{"auto_map": {"AutoConfig": "own.Own", "AutoModelForCausalLM": "own.Own"}}')
    (tmp_path / "tokenizer_config.json").write_text('{"auto_map": {"AutoTokenizer": [null, "own.Own"]}, "tokenizer_class": "Own"}')
    (tmp_path / "chat_template.jinja").write_text("another")
    policy = PretrainedPolicy(str(path), trust_remote_code=True).build()
    assert policy.tokenizer.chat_template == TEMPLATE
    assert not (tmp_path / "executed").exists()


def test_scaled_positions_are_said_to_be_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, _ = written(tmp_path / "tiny.gguf", llama__rope__scaling__factor=8)
    with caplog.at_level(logging.WARNING, logger="lightrl"):
        PretrainedPolicy(str(path)).outline()
    assert "has rope.scaling.factor, which transformers does not read" in caplog.text


def refusal(path: Path) -> str:
    with pytest.raises(ValueError) as caught:
        PretrainedPolicy(str(path)).build()
    assert len(str(caught.value).splitlines()) <= 2
    return str(caught.value)


@pytest.mark.parametrize("share", [0.0005, 0.01, 0.05, 0.5, 0.999])
def test_a_file_that_is_cut_off_is_refused(share: float, tmp_path: Path) -> None:
    path, _ = written(tmp_path / "tiny.gguf")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    assert "is cut off or damaged" in refusal(path)


def test_what_it_is_not_is_refused_with_what_to_give(tmp_path: Path) -> None:
    assert "there is no file" in refusal(tmp_path / "nowhere.gguf")
    (tmp_path / "text.gguf").write_text("not a model")
    assert "is a file, and not GGUF; give a folder" in refusal(tmp_path / "text.gguf")
    path, _ = written(tmp_path / "unknown.gguf", architecture="made-up")
    said = refusal(path)
    assert "reads no such GGUF file" in said
    assert "made-up" in said
    assert "Give the model's folder or hub id instead" in said
    path, _ = written(tmp_path / "part.gguf", split__count=3)
    assert refusal(path) == f"{str(path)!r} is one of 3 files.\nType: llama-gguf-split --merge {path} merged.gguf"


def test_without_the_package_gguf_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = written(tmp_path / "tiny.gguf")
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "gguf")
    assert refusal(path).endswith("needs the package gguf.\nType: pip install 'lightrl-core[gguf]'")
