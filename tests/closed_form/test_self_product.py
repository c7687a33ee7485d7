import torch

from momentalign.closed_form._self_product import self_product


def test_value_and_derivatives_are_those_of_the_plain_product() -> None:
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(4, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    assert torch.equal(self_product(matrix), matrix @ matrix.T)
    assert torch.autograd.gradcheck(self_product, matrix)
    assert torch.autograd.gradgradcheck(self_product, matrix)
