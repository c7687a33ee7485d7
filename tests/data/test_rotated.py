import numpy as np
import pytest
import torch
from scipy import ndimage

from momentalign.data import RotatedDigits, rotate, rotate_domains
from momentalign.data._digits import embedded_digits


@pytest.mark.parametrize("degrees", [15, 30, 45, 60, 75, 90, 137, -20])
@pytest.mark.parametrize("shape", [(8, 8), (7, 9), (28, 28)])
def test_rotation_is_scipys(degrees: float, shape: tuple[int, int]) -> None:
    images = torch.rand(3, 2, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    turned = rotate(images, degrees)
    for image, found in zip(images.flatten(0, 1), turned.flatten(0, 1), strict=True):
        expected = ndimage.rotate(image.numpy(), degrees, order=1, mode="grid-constant", reshape=False, prefilter=False)
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


def test_positive_angles_turn_counter_clockwise() -> None:
    image = torch.arange(9.0).reshape(1, 1, 3, 3)
    np.testing.assert_allclose(rotate(image, 90), torch.rot90(image, 1, (2, 3)), atol=1e-6)


def test_a_point_by_hand() -> None:
    # The right neighbour of the centre, turned by 45 degrees. A pixel sees it as much as the place that the pixel comes
    # from is near to it, in x times in y.
    image = torch.zeros(1, 1, 3, 3, dtype=torch.float64)
    image[0, 0, 1, 2] = 1
    half = 0.5**0.5
    expected = torch.zeros(3, 3, dtype=torch.float64)
    expected[0, 2] = 1 - (2 * half - 1)  # comes from √2 to the right: 0.41 beyond the point
    expected[0, 1] = expected[1, 2] = half * (1 - half)  # comes from (√½, ±√½): both distances are below one
    np.testing.assert_allclose(rotate(image, 45)[0, 0], expected, atol=1e-12)


def test_no_turn_changes_nothing() -> None:
    images = torch.rand(2, 1, 8, 8)
    assert torch.equal(rotate(images, 0), images)
    assert torch.equal(rotate(images, 360), images)


def test_domains_share_no_image() -> None:
    labels = torch.arange(600)
    domains = rotate_domains(torch.zeros(600, 4, 4), labels, seed=0)
    assert list(domains) == ["0", "15", "30", "45", "60", "75"]
    assert all(len(rows) == 100 for rows in domains.values())
    assert torch.equal(torch.cat([rows.targets for rows in domains.values()]).sort().values, labels)


def test_domains_are_turned_by_their_name() -> None:
    images = embedded_digits().images
    domains = rotate_domains(images, torch.arange(len(images)), seed=3)
    for name, rows in domains.items():
        original = images[rows.targets].unsqueeze(1)
        assert torch.equal(rows.tensor, rotate(original, float(name)))
        assert rows.tensor.dtype == torch.float32


def test_rotated_digits() -> None:
    data = RotatedDigits()
    assert (data.name, data.num_classes, data.training_recipe) == ("rotated-digits", 10, "mnist")
    assert [len(data.split(name, "in")) + len(data.split(name, "out")) for name in data.names] == [300] * 3 + [299] * 3
    assert data.split("0", "in").tensor.shape == (240, 1, 8, 8)
    assert not torch.equal(RotatedDigits(1).split("0", "in").tensor, data.split("0", "in").tensor)
    # Golden: the first rows of a trial stay what they are from release to release.
    assert data.split("0", "in").targets[:8].tolist() == [9, 9, 4, 6, 7, 7, 6, 5]
    assert data.split("75", "out").tensor.double().sum().item() == pytest.approx(1137.19333, abs=1e-4)
