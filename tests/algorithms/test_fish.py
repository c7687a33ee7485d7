import math

import torch
from torch import nn
from torch.optim import SGD

from momentalign.algorithms import Batch, Fish, Network
from tests.algorithms.by_hand import TwoParameters, one_row_a_domain
from tests.algorithms.tiny import K, batch, build, hparams
from tests.references import assert_equal


def test_two_parameters_by_hand() -> None:
    """Adam's arithmetic domain by domain, its averages going on into the next step."""
    lr, meta, beta1, beta2, eps = 0.1, 0.5, 0.9, 0.999, 1e-8
    rows = ((1.0, 2.0), (-3.0, 1.0))
    model = TwoParameters(0.0, 0.0)
    algorithm = Fish(model, 2, hparams("fish", lr=lr, meta_lr=meta))
    optimizers = algorithm.optimizers()

    w, m, v, count = [0.0, 0.0], [0.0, 0.0], [0.0, 0.0], 0
    for _ in range(3):
        algorithm.update(one_row_a_domain(*rows), optimizers, lambda loss: loss.backward())
        inner = list(w)
        for x in rows:
            count += 1
            p = 1 / (1 + math.exp(-(inner[0] * x[0] + inner[1] * x[1])))
            for k in range(2):
                g = (p - 1) * x[k]
                m[k] = beta1 * m[k] + (1 - beta1) * g
                v[k] = beta2 * v[k] + (1 - beta2) * g * g
                inner[k] -= lr * (m[k] / (1 - beta1**count)) / (math.sqrt(v[k] / (1 - beta2**count)) + eps)
        w = [a + meta * (b - a) for a, b in zip(w, inner, strict=True)]
        assert_equal(model.w, torch.tensor(w, dtype=torch.float64), 1e-12)


def test_running_averages_move_by_the_same_share() -> None:
    norm = nn.BatchNorm1d(2, momentum=1.0, dtype=torch.float64)  # keeps the last batch's statistics
    model = Network(norm, 2, 2).double()
    algorithm = Fish(model, 2, hparams("fish", meta_lr=0.25))
    inputs = torch.tensor([[0.0, 0.0], [2.0, 4.0], [4.0, 8.0], [8.0, 16.0]], dtype=torch.float64)
    rows = Batch(inputs, torch.tensor([0, 1, 0, 1]), torch.tensor([0, 0, 1, 1]))
    algorithm.update(rows, algorithm.optimizers(), lambda loss: loss.backward())
    assert_equal(norm.running_mean, torch.tensor([1.5, 3.0], dtype=torch.float64))  # a quarter of (6, 12)
    assert norm.num_batches_tracked == 2


def test_with_plain_steps_it_raises_inner_products_of_gradients() -> None:
    """Of the mean over the domains' orders, (θ_inner − θ)/lr is −Σ g_e + lr/2 ∇ Σ_{e≠f} g_e·g_f / 2 + O(lr²)."""
    lr, total = 1e-3, 0.0
    rows = batch()
    orders = [[0, 1, 2], [2, 1, 0]]
    for order in orders:
        algorithm = build("fish", meta_lr=1.0)
        parts = [rows.per_domain(K)[e] for e in order]
        shuffled = Batch(
            torch.cat([part.inputs for part in parts]), torch.cat([part.targets for part in parts]), rows.domains
        )
        start = torch.cat([p.detach().flatten().clone() for p in algorithm.parameters()])
        algorithm.update(shuffled, {"network": SGD(algorithm.parameters(), lr=lr)}, lambda loss: loss.backward())
        total = total + (torch.cat([p.detach().flatten() for p in algorithm.parameters()]) - start) / lr / len(orders)

    network = build("fish").network
    parameters = list(network.parameters())
    flat = []
    for part in rows.per_domain(K):
        loss = torch.nn.functional.cross_entropy(network(part.inputs)[1], part.targets)
        gradients = torch.autograd.grad(loss, parameters, create_graph=True)
        flat.append(torch.cat([gradient.flatten() for gradient in gradients]))
    products = sum(flat[a] @ flat[b] for a in range(K) for b in range(a))
    rise = torch.cat([g.flatten() for g in torch.autograd.grad(products, parameters)])
    assert_equal(total, -sum(flat).detach() + lr / 2 * rise, 1e-5)
    assert (lr / 2 * rise).norm() > 1e-4 * sum(flat).norm()  # large enough to be seen above
