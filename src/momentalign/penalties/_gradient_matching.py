"""Gradients alone."""

from momentalign.penalties._moment_alignment import AlignmentPenalty


class GradientMatching(AlignmentPenalty):
    r"""Matches the gradients of a linear head across domains: :class:`CMA` without its Hessians.

    :math:`\frac1K \sum_e \|\nabla L_e - \overline{\nabla L}\|^2`. Term: `gradient`.

    Args:
        gradient_weight: Weight of the spread.
        anneal_steps: Training calls before the weights take effect; make the optimizer's state new at that step.
        momentum: Decay γ of the past batches' part in each domain's derivative; 0 looks at the batch alone.
        bias: Whether the head has a bias.
        loss: `"cross_entropy"`, `"logistic"` or `"squared_error"`.
        route: `"gram"`, `"direct"`, `"pairwise"` give the same number; `"auto"` takes the cheaper of the first two.
        scaling: What divides a term: `"none"` nothing, `"classes"` C^r, `"parameters"` (dC)², `"relative"` the mean
            squared norm of the samples' derivatives, which makes it a number between 0 and 1.
        num_domains: Domains are 0 … num_domains − 1; then nothing has to be read back from the device.
        gather: Under `torch.distributed`, gather the batches of all ranks, differentiably.
        validate: Check values. None checks on CPU only; never while compiling or capturing.

    Example:
        >>> import torch
        >>> features = torch.tensor([[1.0], [2.0]])
        >>> logits, targets, domains = torch.zeros(2, 2), torch.tensor([0, 0]), torch.tensor([0, 1])
        >>> GradientMatching(bias=False)(features, logits, targets, domains)
        tensor(0.1250)
    """

    def __init__(
        self,
        gradient_weight: float = 1.0,
        *,
        anneal_steps: int = 0,
        momentum: float = 0.0,
        bias: bool = True,
        loss: str = "cross_entropy",
        route: str = "auto",
        scaling: str = "none",
        num_domains: int | None = None,
        gather: bool = True,
        validate: bool | None = None,
    ) -> None:
        super().__init__(
            {1: gradient_weight},
            anneal_steps=anneal_steps,
            momentum=momentum,
            bias=bias,
            loss=loss,
            route=route,
            scaling=scaling,
            num_domains=num_domains,
            gather=gather,
            validate=validate,
        )
