import copy
import math

import pytest
import torch

from momentalign.algorithms import Batch
from momentalign.algorithms._selfreg import within_classes
from tests.algorithms.tiny import batch, build, descents
from tests.references import assert_equal


def test_partners_are_of_the_same_class_and_all_of_them_occur() -> None:
    torch.manual_seed(0)
    targets = torch.tensor([3, 0, 3, 1, 3, 1])
    seen = set()
    for _ in range(200):
        partners = within_classes(targets)
        assert torch.equal(targets[partners], targets)
        assert torch.equal(partners.sort().values, torch.arange(6))
        seen.add(tuple(partners.tolist()))
    assert len(seen) == 6 * 2  # permutations of three rows times those of two


@pytest.mark.parametrize("knows", [False, True])
def test_step_written_down_again(knows: bool) -> None:
    """A network that knows the targets has a cross-entropy below one, which is then the weight."""
    algorithm = build("selfreg")
    if knows:
        with torch.no_grad():
            algorithm.network.head.weight.mul_(3)
    twin = copy.deepcopy(algorithm)
    lr, optimizers = 0.1, descents(algorithm, 0.1)
    for step in range(3):
        rows = batch(step)
        if knows:
            rows = Batch(rows.inputs, twin.network(rows.inputs)[1].argmax(1), rows.domains)
        torch.manual_seed(100 + step)
        logged = algorithm.update(rows, optimizers, lambda loss: loss.backward())
        assert (logged["cross_entropy"] < 1) == knows
        torch.manual_seed(100 + step)
        first, second = within_classes(rows.targets), within_classes(rows.targets)
        mix = float((math.pi / 2 * torch.rand((), dtype=torch.float64)).sin().square())
        features, logits = twin.network(rows.inputs)
        projected = twin.projection(features)
        n, total = len(rows), 0.0
        for i in range(n):
            total = total - logits[i].log_softmax(0)[rows.targets[i]] / n
        weight, pulls = min(float(total.detach()), 1.0), 0.0
        for i in range(n):
            for values, partners, share in ((logits, logits, 1.0), (features, projected, 0.3)):
                near = partners[first[i]]
                mixed = mix * near + (1 - mix) * partners[second[i]]
                pull = mix * (values[i] - near).square().mean() + (1 - mix) * (values[i] - mixed).square().mean()
                pulls = pulls + share * pull / n
        loss = total + weight * pulls
        assert_equal(logged["loss"], loss)
        gradients = torch.autograd.grad(loss, list(twin.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(twin.parameters(), gradients, strict=True):
                parameter -= lr * gradient
    for mine, its in zip(algorithm.parameters(), twin.parameters(), strict=True):
        assert_equal(mine, its, 1e-9)
