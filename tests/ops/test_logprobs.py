import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from lightrl import Entropy
from lightrl.ops import head_product, logprobs
from lightrl.ops.logprobs import chosen_logprobs

ENTROPY = [Entropy().compute]
OPTIONS = [
    {},
    {"temperature": 0.7},
    {"softcap": 3.0},
    {"scale": 0.25},
    {"temperature": 1.3, "softcap": 5.0, "scale": 2.0},
]


def naive(hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, temperature=1.0, softcap=None, scale=1.0):
    logits = (hidden @ weight.T + (0 if bias is None else bias)) * scale
    if softcap is not None:
        logits = softcap * torch.tanh(logits / softcap)
    logq = (logits / temperature).log_softmax(-1)
    entropy = -(logq.exp() * torch.where(logq == -torch.inf, 0.0, logq)).sum(-1)
    return logq.gather(1, targets[:, None])[:, 0], entropy


def inputs(rows: int = 7, width: int = 5, vocabulary: int = 11, bias: bool = True, dtype=torch.float64):
    torch.manual_seed(0)
    tensors = [torch.randn(rows, width), torch.randn(vocabulary, width), torch.randn(vocabulary) if bias else None]
    hidden, weight, offset = (None if t is None else t.to(dtype).requires_grad_() for t in tensors)
    return hidden, weight, offset, torch.randint(vocabulary, (rows,))


@pytest.fixture(params=[(1, 0), (2, 0), (3, 0), (7, 0), (100, 0), (3, 6), (3, 7)], ids=lambda rows: "chunks of {}, {} kept".format(*rows))
def _chunks(request, monkeypatch) -> None:
    at_once, kept = request.param
    monkeypatch.setattr(head_product, "ELEMENTS", at_once * 11)
    monkeypatch.setattr(head_product, "LEAST_ROWS", 1)
    monkeypatch.setattr(head_product, "TILE", (0, 0))
    monkeypatch.setattr(logprobs, "KEPT", kept * 11)


@pytest.mark.usefixtures("_chunks")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_values_and_gradients_are_those_of_log_softmax(options: dict, bias: bool) -> None:
    hidden, weight, offset, targets = inputs(bias=bias)
    wanted = [t for t in (hidden, weight, offset) if t is not None]
    ours = chosen_logprobs(hidden, weight, offset, targets, outputs=ENTROPY, **options)
    theirs = naive(hidden, weight, offset, targets, **options)
    upstream = [torch.randn(7, dtype=torch.float64) for _ in range(2)]
    for mine, other in zip(ours, theirs, strict=True):
        assert torch.allclose(mine, other, atol=1e-12)
    here, there = (torch.autograd.grad(sum((o * u).sum() for o, u in zip(out, upstream, strict=True)), wanted) for out in (ours, theirs))
    for mine, other in zip(here, there, strict=True):
        assert torch.allclose(mine, other, atol=1e-10)


@given(
    rows=st.integers(1, 9),
    vocabulary=st.integers(2, 30),
    tile=st.tuples(st.integers(1, 9), st.integers(1, 30)),
    options=st.sampled_from(OPTIONS),
    forbidden=st.none() | st.tuples(st.integers(0, 29), st.integers(1, 30)),
)
def test_parts_of_a_large_vocabulary_give_what_the_whole_gives(rows, vocabulary, tile, options, forbidden) -> None:
    hidden, weight, offset, targets = inputs(rows, vocabulary=vocabulary)
    if forbidden is not None and "softcap" not in options:
        with torch.no_grad():
            offset[forbidden[0] : forbidden[0] + forbidden[1]] = -torch.inf
            # the tokens that were chosen had some probability
            offset[targets] = 0.5
    upstream = torch.randn(rows, dtype=torch.float64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(head_product, "ELEMENTS", 0)
        patch.setattr(head_product, "LEAST_ROWS", 0)
        patch.setattr(head_product, "TILE", tile)
        patch.setattr(logprobs, "KEPT", 0)
        (ours,) = chosen_logprobs(hidden, weight, offset, targets, **options)
        found = torch.autograd.grad((ours * upstream).sum(), (hidden, weight, offset))
    theirs, _ = naive(hidden, weight, offset, targets, **options)
    expected = torch.autograd.grad((theirs * upstream).sum(), (hidden, weight, offset))
    torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=0)
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other, atol=1e-10, rtol=0)


@pytest.mark.parametrize("part", [3, 4, 11])
@pytest.mark.parametrize("token", [-1, 11])
def test_a_token_outside_the_vocabulary_is_refused_whatever_the_parts(token: int, part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in ((head_product, "TILE", (2, part)), (head_product, "ELEMENTS", 0), (logprobs, "KEPT", 0)):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(head_product, "LEAST_ROWS", 1)
    hidden, weight, offset, targets = inputs()
    targets[3] = token
    with pytest.raises((IndexError, RuntimeError), match="out of bounds"):
        chosen_logprobs(hidden, weight, offset, targets)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sums_over_parts_of_a_vocabulary_are_as_exact_as_those_of_the_whole(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logprobs, "KEPT", 0)
    hidden, weight, _, targets = inputs(rows=64, width=16, vocabulary=3000, bias=False, dtype=dtype)
    exact = [t.detach().double().requires_grad_() for t in (hidden, weight)]
    expected = torch.autograd.grad(naive(exact[0], exact[1], None, targets)[0].sum(), exact)

    def off(at_once: int) -> list[float]:
        monkeypatch.setattr(head_product, "TILE", (at_once, 100))
        found = torch.autograd.grad(chosen_logprobs(hidden, weight, None, targets)[0].sum(), (hidden, weight))
        return [float((mine.double() - other).norm() / other.norm()) for mine, other in zip(found, expected, strict=True)]

    monkeypatch.setattr(head_product, "ELEMENTS", 64 * 100)
    monkeypatch.setattr(head_product, "LEAST_ROWS", 16)
    whole = off(0)
    for parts, together in zip(off(64), whole, strict=True):
        assert parts <= 1.2 * together + 1e-7


@pytest.mark.skipif(not head_product.onednn_is_wide(), reason="needs a processor with AVX-512")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kept", [0, head_product.KEPT], ids=["computed again", "kept"])
def test_large_products_of_onednn_are_those_of_double_precision(monkeypatch, bias: bool, kept: int) -> None:
    monkeypatch.setattr(head_product, "LARGE", 1)
    monkeypatch.setattr(logprobs, "KEPT", kept)
    asked = []
    product = head_product.onednn_product
    monkeypatch.setattr(head_product, "onednn_product", lambda *factors: asked.append(len(factors[0])) or product(*factors))
    hidden, weight, offset, targets = inputs(rows=300, width=16, vocabulary=70, bias=bias, dtype=torch.float32)
    wanted = [t for t in (hidden, weight, offset) if t is not None]
    (ours,) = chosen_logprobs(hidden, weight, offset, targets)
    theirs, _ = naive(*(None if t is None else t.double() for t in (hidden, weight, offset)), targets)
    upstream = torch.randn(300)
    found = torch.autograd.grad((ours * upstream).sum(), wanted)
    expected = torch.autograd.grad((theirs * upstream).sum(), wanted)
    assert 300 in asked
    assert torch.allclose(ours.double(), theirs, atol=1e-5)
    for mine, other in zip(found, expected, strict=True):
        assert torch.allclose(mine, other, atol=1e-4)


@pytest.mark.parametrize(("known", "quick"), [({"cpu_name": "Intel Xeon"}, True), ({"cpu_name": "AMD EPYC"}, False), ({}, False)])
def test_the_processor_is_intels_where_torch_says_so(monkeypatch, known: dict[str, str], quick: bool) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: known, raising=False)
    assert head_product.mkl_is_quick.__wrapped__() is quick


def test_an_older_torch_does_not_name_the_processor(monkeypatch) -> None:
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert not head_product.mkl_is_quick.__wrapped__()


def paired(logits: Tensor, ids: Tensor) -> Tensor:
    """A number that the sampled token has a part in."""
    q = logits.softmax(-1)
    return (q * q).sum(-1) * q.gather(1, ids[:, None])[:, 0]


@pytest.mark.parametrize("read", [[], ENTROPY, [paired, *ENTROPY]], ids=["nothing", "entropy", "two"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_gradcheck(options: dict, read: list) -> None:
    hidden, weight, offset, targets = inputs(rows=3, width=2, vocabulary=4)

    def function(*tensors: Tensor):
        return chosen_logprobs(*tensors, targets, outputs=read, **options)

    assert torch.autograd.gradcheck(function, (hidden, weight, offset))


@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_what_needs_no_gradient_gets_none(frozen: int) -> None:
    tensors = list(inputs()[:3])
    tensors[frozen] = tensors[frozen].detach()
    chosen_logprobs(*tensors, inputs()[3])[0].sum().backward()
    assert [t.grad is None for t in tensors] == [i == frozen for i in range(3)]


@pytest.mark.usefixtures("_chunks")
@pytest.mark.parametrize("used", [True, False], ids=["entropy", "log-probs"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_gradient_behind_a_head_that_does_not_learn(options: dict, used: bool) -> None:
    hidden, weight, offset, targets = inputs()
    weight, offset = weight.detach(), offset.detach()
    upstream = [torch.randn(7, dtype=torch.float64), used * torch.randn(7, dtype=torch.float64)]
    ours, theirs = (
        torch.autograd.grad(sum((o * u).sum() for o, u in zip(found, upstream, strict=True)), hidden)[0]
        for found in (
            chosen_logprobs(hidden, weight, offset, targets, outputs=ENTROPY, **options),
            naive(hidden, weight, offset, targets, **options),
        )
    )
    assert torch.allclose(ours, theirs, atol=1e-10)


def test_the_gradient_behind_a_bf16_head_that_does_not_learn() -> None:
    hidden, weight, offset, targets = inputs(rows=40, width=16, dtype=torch.bfloat16)
    upstream = torch.randn(40)
    found, exact = (
        torch.autograd.grad(
            (chosen_logprobs(*(t.to(dtype) for t in (hidden, weight.detach(), offset.detach())), targets)[0] * upstream).sum(), hidden
        )[0]
        for dtype in (torch.bfloat16, torch.float64)
    )
    assert found.dtype == torch.bfloat16
    assert torch.allclose(found, exact, rtol=2**-7, atol=1e-6)


def test_a_head_that_does_not_learn_computes_its_logits_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    plain = logprobs.head_logits
    monkeypatch.setattr(logprobs, "head_logits", lambda hidden, *rest: made.append(len(hidden)) or plain(hidden, *rest))
    hidden, weight, offset, targets = inputs()
    chosen_logprobs(hidden, weight.detach(), offset.detach(), targets)[0].sum().backward()
    assert made == [7]
    chosen_logprobs(hidden, weight, offset, targets)[0].sum().backward()
    assert made == [7, 7], "the gradient with respect to the logits of few rows is kept"
    monkeypatch.setattr(logprobs, "KEPT", 0)
    chosen_logprobs(hidden, weight, offset, targets)[0].sum().backward()
    assert made == [7] * 4


def test_what_is_only_looked_at_is_not_computed_again_and_costs_no_gradient() -> None:
    asked = []

    def counted(logits: Tensor, ids: Tensor) -> Tensor:
        asked.append(len(ids))
        return paired(logits, ids)

    hidden, weight, offset, targets = inputs()
    values, _ = chosen_logprobs(hidden, weight, offset, targets, outputs=[counted])
    (plain,) = torch.autograd.grad(chosen_logprobs(hidden, weight, offset, targets)[0].sum(), hidden)
    assert torch.equal(torch.autograd.grad(values.sum(), hidden)[0], plain)
    assert asked == [7]


def test_an_output_alone_has_its_gradient() -> None:
    hidden, weight, offset, targets = inputs()
    _, found = chosen_logprobs(hidden, weight, offset, targets, outputs=ENTROPY)
    _, expected = naive(hidden, weight, offset, targets)
    ours, theirs = (torch.autograd.grad(one.sum(), weight)[0] for one in (found, expected))
    assert torch.allclose(ours, theirs, atol=1e-12)


def test_a_forbidden_token_has_probability_zero_and_poisons_nothing() -> None:
    hidden, weight, offset, targets = inputs()
    with torch.no_grad():
        offset[4] = -torch.inf
    targets[targets == 4] = 5
    values, entropies = chosen_logprobs(hidden, weight, offset, targets, outputs=ENTROPY)
    expected, expected_entropies = naive(hidden, weight, offset, targets)
    assert torch.allclose(values, expected)
    assert torch.allclose(entropies, expected_entropies)
    (values.sum() + entropies.sum()).backward()
    assert all(t.grad.isfinite().all() for t in (hidden, weight, offset))
    assert (weight.grad[4] == 0).all()


def test_log_probs_of_bf16_weights_are_float32_and_close() -> None:
    hidden, weight, _, targets = inputs(rows=40, width=16, bias=False, dtype=torch.bfloat16)
    values, entropies = chosen_logprobs(hidden, weight, None, targets, outputs=ENTROPY)
    assert values.dtype == entropies.dtype == torch.float32
    (values.sum() + entropies.sum()).backward()
    exact = [t.detach().double().requires_grad_() for t in (hidden, weight)]
    expected, expected_entropies = naive(exact[0], exact[1], None, targets)
    (expected.sum() + expected_entropies.sum()).backward()
    assert torch.allclose(values.double(), expected, atol=0.1)
    for mine, other in zip((hidden, weight), exact, strict=True):
        assert mine.grad.dtype == torch.bfloat16
        assert (mine.grad.double() - other.grad).norm() < 0.02 * other.grad.norm()


@pytest.mark.usefixtures("_chunks")
def test_under_autocast_the_backward_pass_sees_the_same_logits() -> None:
    hidden, weight, offset, targets = inputs(rows=9, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        (values,) = chosen_logprobs(hidden, weight, offset, targets)
    values.sum().backward()
    # softmax sums to 1 only if forward and backward agree: then every row's gradient of the bias sums to 0
    assert offset.grad.sum().item() == pytest.approx(0, abs=0.02)
    exact = inputs(rows=9)
    naive(*exact[:3], exact[3])[0].sum().backward()
    for mine, other in zip((hidden, weight, offset), exact[:3], strict=True):
        assert (mine.grad.double() - other.grad).norm() < 0.02 * other.grad.norm()


def test_no_rows() -> None:
    hidden, weight, offset, _ = inputs(rows=0)
    values, entropies = chosen_logprobs(hidden, weight, offset, torch.empty(0, dtype=torch.long), outputs=ENTROPY)
    assert values.shape == entropies.shape == (0,)
    values.sum().backward()
    assert (weight.grad == 0).all()


def test_memory_holds_a_chunk_of_logits_not_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, vocabulary = 512, 20_000
    monkeypatch.setattr(logprobs, "KEPT", rows * vocabulary - 1)
    hidden, weight = torch.randn(rows, 8, requires_grad=True), torch.randn(vocabulary, 8, requires_grad=True)
    targets = torch.randint(vocabulary, (rows,))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        chosen_logprobs(hidden, weight, None, targets)[0].sum().backward()
    largest = max(event.cpu_memory_usage for event in profile.events())
    assert largest <= 4 * head_product.ELEMENTS < 4 * rows * vocabulary


def test_a_loss_of_log_probs_may_be_followed_back_twice() -> None:
    hidden, weight, offset, targets = inputs()
    loss = chosen_logprobs(hidden, weight, offset, targets)[0].sum()
    once, twice = (torch.autograd.grad(loss, (hidden, weight, offset), retain_graph=True) for _ in range(2))
    assert all(torch.equal(first, second) for first, second in zip(once, twice, strict=True))
