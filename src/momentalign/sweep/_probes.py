"""Plans of linear probes: their grids on one seed, the best sets on more."""

from collections.abc import Mapping, Sequence
from typing import Any

from momentalign._validation import check_count, check_names
from momentalign.sweep._plan import Plan, PlanBuilder, check_named


def make_probe_plan(
    datasets: Sequence[str],
    algorithms: Sequence[str],
    *,
    trials: int = 5,
    hparams: int | None = None,
    overrides: Mapping[str, Any] | None = None,
    **options: Any,
) -> Plan:
    """List the probes that worst-group selection needs.

    Args:
        datasets: Files of features, as `momentalign embed` writes them.
        algorithms: Names of probing methods.
        trials: Number of seeds.
        hparams: Number of sets of hyper-parameters of each method; None takes its whole grid.
        overrides: Hyper-parameters that are not searched, with their values.
        **options: Passed on to :func:`momentalign.probing.make_probe_config`: solver, recipe, record_every.

    Returns:
        The plan.
    """
    from momentalign.probing import ProbeData, grid_size, make_probe_config

    check_count("trials", trials, 1)
    check_names("datasets", datasets)
    check_names("algorithms", algorithms)
    check_named(datasets, algorithms)
    known = {name: value for name, value in options.items() if name in ("solver", "recipe")}
    builder = PlanBuilder()
    for dataset in datasets:
        domains = ProbeData.from_file(dataset).domain_names
        for algorithm in algorithms:
            sets = grid_size(dataset, algorithm, **known)
            sets = sets if hparams is None else min(sets, check_count("hparams", hparams, 1))
            for trial in range(trials):
                for number in range(sets):
                    config = make_probe_config(
                        dataset, algorithm, hparams_seed=number, trial=trial, hparams=overrides, **options
                    )
                    builder.add(config, domains, ("worst-group",))
    return builder.plan()
