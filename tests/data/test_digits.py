import pytest
import torch
from torch import Tensor

from momentalign.data import ColoredDigits, Split, color_domains

FLIPS = {"+90%": 0.1, "+80%": 0.2, "-90%": 0.9}


def colors(rows: Split) -> Tensor:
    """Which channel holds the image."""
    return rows.inputs.flatten(2).sum(2).argmax(1)


@pytest.fixture(scope="module")
def many() -> dict[str, Split]:
    # Each image carries its own number in its first pixel and its digit in the second, so that both can be read back.
    n = 30_000
    labels = torch.arange(n) % 10
    images = torch.stack([torch.arange(n) + 1.0, labels + 1.0], dim=1).unsqueeze(1)
    return color_domains(images, labels, seed=0)


def test_domains_share_no_image(many: dict[str, Split]) -> None:
    numbers = torch.cat([rows.inputs[..., 0].sum((1, 2)) for rows in many.values()])
    assert torch.equal(numbers.sort().values, torch.arange(30_000) + 1.0)


def test_one_channel_is_empty(many: dict[str, Split]) -> None:
    for rows in many.values():
        filled = rows.inputs.flatten(2).sum(2) > 0
        assert torch.equal(filled.sum(1), torch.ones(len(rows), dtype=torch.long))


def test_rates_of_label_noise_and_color(many: dict[str, Split]) -> None:
    # 10,000 draws a domain: five standard errors are at most 0.022.
    for name, rows in many.items():
        digits = rows.inputs[..., 1].sum((1, 2)) - 1
        noise = (rows.targets != (digits < 5)).double().mean().item()
        contradiction = (rows.targets != colors(rows)).double().mean().item()
        assert noise == pytest.approx(0.25, abs=0.022)
        assert contradiction == pytest.approx(FLIPS[name], abs=0.022)


def test_same_seed_same_data() -> None:
    images, labels = torch.rand(99, 4, 4), torch.arange(99) % 10
    first, again, other = (color_domains(images, labels, seed=seed) for seed in (5, 5, 6))
    for name in FLIPS:
        assert torch.equal(first[name].inputs, again[name].inputs)
        assert torch.equal(first[name].targets, again[name].targets)
    assert not torch.equal(first["+90%"].inputs, other["+90%"].inputs)


def test_colored_digits() -> None:
    data = ColoredDigits()
    assert data.names == tuple(FLIPS)
    assert data.num_classes == 2
    for name in data.names:
        inside, outside = data.split(name, "in"), data.split(name, "out")
        assert (len(inside), len(outside)) == (480, 119)
        assert inside.inputs.shape[1:] == (2, 8, 8)
        assert inside.inputs.dtype == torch.float32
        assert inside.targets.dtype == torch.int64
        assert inside.inputs.amin() == 0
        assert inside.inputs.amax() == 1
    assert repr(data).startswith("ColoredDigits('colored-digits', 2 classes; +90%: 480 in + 119 out")


def test_trials_differ() -> None:
    first, second = (ColoredDigits(trial).split("+90%", "in") for trial in (0, 1))
    assert not torch.equal(first.inputs, second.inputs)


def test_rejects_images_with_channels() -> None:
    with pytest.raises(ValueError, match=r"\(n, height, width\), but has shape \(9, 1, 8, 8\)"):
        color_domains(torch.zeros(9, 1, 8, 8), torch.zeros(9), seed=0)


def test_rejects_labels_of_another_length() -> None:
    with pytest.raises(ValueError, match=r"one entry per image \(9\), but has shape \(8,\)"):
        color_domains(torch.zeros(9, 8, 8), torch.zeros(8), seed=0)
