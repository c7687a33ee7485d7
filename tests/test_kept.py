"""What the package promises however it is rewritten, and the tests that hold each promise."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

KEPT = {
    "closed forms are the derivatives of torch.func": """
        penalties/test_definitions.py::test_value_and_gradients
        penalties/test_definitions.py::test_large_heads_by_grams
        penalties/test_definitions.py::test_moment_alignment_by_every_route
        test_functional.py::test_grams_alignment_and_derivatives_are_those_of_dense_tensors""",
    "a sure prediction keeps its digits": """
        closed_form/test_cma.py::test_a_sure_and_right_prediction_keeps_its_digits
        closed_form/test_heads.py::test_saturated_softmax_keeps_its_digits_where_the_textbook_does_not
        test_values.py::test_values_are_the_recorded_ones""",
    "two ranks are one process": """
        penalties/test_gather.py::test_two_ranks_are_one_process
        algorithms/test_ranks.py::test_two_ranks_are_one_process""",
    "a bad batch is an error that names the argument": """
        penalties/test_options.py::test_batches
        test_validation.py::test_bad_inputs_are_named""",
    "domains are any integers in any order, and some may be missing": """
        penalties/test_properties.py::test_row_order_and_names_of_domains
        penalties/test_properties.py::test_number_of_domains_changes_nothing
        penalties/test_properties.py::test_one_domain_is_zero_with_one_warning""",
    "bfloat16 under autocast computes in float32": """
        penalties/test_properties.py::test_computes_in_float32_under_autocast""",
    "numbers do not change unnoticed": """
        test_values.py::test_values_are_the_recorded_ones
        test_defaults.py::test_defaults_stay""",
    "transfer measures and bounds hold, and the paper's errors stay known": """
        theory/test_transfer.py::test_definitions_hold_at_every_head_of_the_ball
        theory/test_taylor.py::test_holds_on_random_softmax_problems
        theory/test_errata.py::test_half_does_not_hold_for_the_papers_centre
        test_errata.py::test_squared_norm_of_one_hessian""",
    "files are written atomically": """
        test_files.py::test_failure_keeps_the_old_file
        test_files.py::test_content_is_on_disk_before_it_has_its_name""",
    "a run that is killed anywhere resumes to identical weights": """
        training/test_resume.py::test_killed_at_step_11_and_resumed
        training/test_command.py::test_an_interrupted_process_resumes_bit_identically
        training/test_checkpoint.py::test_a_failed_write_keeps_the_last_checkpoint""",
    "a sweep that is killed anywhere goes on": """
        sweep/test_engines.py::test_an_interrupted_sweep_is_one_line_and_leaves_no_process
        sweep/test_engines.py::test_unfinished_runs_are_resumed""",
    "a full disk loses nothing": """
        training/test_run.py::test_records_on_a_disk_that_is_really_full
        tables/test_model.py::test_a_full_disk_keeps_the_model_before
        encoders/test_embed.py::test_a_full_disk_loses_nothing
        report/test_command.py::test_a_full_disk_is_one_line_and_leaves_nothing""",
    "two processes in one folder": """
        runs/test_folder.py::test_two_processes_do_not_share_a_folder
        sweep/test_local.py::test_two_sweeps_share_a_folder""",
    "the run of a dead worker is repeated": """
        sweep/test_engines.py::test_a_run_that_loses_its_process_is_resumed_a_few_times
        sweep/test_ray.py::test_a_node_that_dies_loses_no_run""",
    "weights run no code, and no code comes from a hub": """
        encoders/test_vision.py::test_refuses_pickled_weights
        encoders/test_vision.py::test_refuses_what_is_damaged_or_needs_code
        encoders/test_vision.py::test_refuses_fields_that_load_code
        hub/test_repository.py::test_what_is_not_a_model_of_ours""",
    "HTML, LaTeX and the formulas of CSV are escaped": """
        report/test_page.py::test_hostile_names_are_text
        report/test_tables.py::test_hostile_names_stay_text_in_latex
        test_csv.py::test_text_that_looks_like_a_formula_gets_an_apostrophe""",
    "another model is not replaced without a word": """
        cli/test_probe.py::test_another_model_is_only_replaced_on_demand""",
    "generated input and the soak": """
        generated/test_command_lines.py::test_command_lines
        generated/test_penalties.py::test_a_penalty_refuses_anything_else_in_words
        generated/test_estimators.py::test_estimators
        integration/test_soak.py::test_some_attacks_on_probe_are_survived""",
    "the encoder's kernel of ReLU and GroupNorm": """
        encoders/test_fused_norm.py::test_value_and_gradients""",
    "momentalign is imported without torch": """
        test_package.py::test_penalties_and_modules_are_imported_on_first_access""",
    "records of older versions are read by tables and reports": """
        report/test_group_table.py::test_runs_of_earlier_versions_have_average_and_worst_group
        runs/test_read.py::test_blank_lines_numbers_of_other_kinds_and_unknown_keys_are_read
        training/test_resume.py::test_a_run_of_an_older_version_is_not_resumed_and_its_records_stay""",
    "a user's error is one line and exit code 2": """
        cli/test_errors.py::test_an_error_is_one_line
        cli/test_errors.py::test_bad_input_is_one_line_and_leaves_nothing""",
    "missing columns, wrong encodings, empty domains, unknown names and damaged folders are named": """
        tables/test_table.py::test_missing_columns
        tables/test_files.py::test_wrong_separators_and_encodings
        training/test_steps.py::test_pools_are_the_training_rows
        data/test_dataset.py::test_unknown_domain_names_the_known_ones
        data/test_load.py::test_unknown_name_suggests_the_nearest
        algorithms/test_catalogue.py::test_unknown_names
        runs/test_damaged.py::test_the_table_goes_on_without_a_damaged_run
        tables/test_model.py::test_folders_that_are_no_model""",
}


@pytest.mark.parametrize("promise", KEPT)
def test_a_promise_has_its_tests(promise: str) -> None:
    for test in KEPT[promise].split():
        path, name = test.split("::")
        assert re.search(rf"^def {name}\(", (TESTS / path).read_text(), re.MULTILINE), test
