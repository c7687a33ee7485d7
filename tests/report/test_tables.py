import csv
import io
import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from momentalign.cli import app
from momentalign.report import ResultCell, ResultRow, ResultTable, TableSection, accuracy_table
from momentalign.report._names import dataset_labels
from momentalign.runs import write_planned
from momentalign.selection import read_runs, select
from tests.runs.fake_sweep import make_config, record, write_fake_probes, write_fake_sweep, write_run

pytestmark = pytest.mark.slow

HOSTILE = ("<script>alert(1)</script>", "../x", "a & b_c | 50% $x^2$ {y} \\z #~`*[k](http://e)", "line\nbreak\x1b[31m")


def sweep_of(folder, numbers, *, domains=("a", "b"), dataset="toy", algorithm="erm"):
    """One set of hyper-parameters; numbers[trial][domain] is the test accuracy, None a failed run."""
    for trial, row in enumerate(numbers):
        for domain, value in zip(domains, row, strict=True):
            config = make_config(dataset=dataset, algorithm=algorithm, test_domains=[domain], trial=trial)
            lines = [record(9, "accuracy", value, name, split) for name in domains for split in ("in", "out")]
            status = "failed" if value is None else "finished"
            write_run(folder, config, [] if value is None else lines, domains=domains, status=status)
    return folder


def cells(section, algorithm, published=False):
    row = next(row for row in section.rows if row.algorithm == algorithm and row.published == published)
    return dict(zip(section.columns, (cell.text for cell in row.cells), strict=True))


def test_cells_are_means_with_the_population_error(tmp_path):
    sweep_of(tmp_path, [(0.50, 0.90), (0.60, 0.70), (0.70, 0.80)])
    section = accuracy_table(read_runs(tmp_path), "oracle").sections[0]
    error = 100 * np.std([0.5, 0.6, 0.7]) / np.sqrt(3)
    assert cells(section, "erm") == {
        "a": f"60.0 ± {error:.1f}",
        "b": f"80.0 ± {error:.1f}",
        # Within trials 70, 65, 75: not the error of the pooled numbers.
        "average": f"70.0 ± {100 * np.std([0.7, 0.65, 0.75]) / np.sqrt(3):.1f}",
    }
    assert f"{error:.1f}" == "4.7"
    text = accuracy_table(read_runs(tmp_path), "oracle").to_text()
    assert "oracle selection" in text
    assert "domains were tested" not in text  # all of them were
    assert "Best of 1 set of hyper-parameters. Mean over 3 trials ± population standard deviation / √trials." in text


def test_one_trial_has_no_error(tmp_path):
    sweep_of(tmp_path, [(0.5, 0.9)])
    table = accuracy_table(read_runs(tmp_path), "oracle")
    assert cells(table.sections[0], "erm") == {"a": "50.0", "b": "90.0", "average": "70.0"}
    assert "One trial, so there is no ±." in table.to_text()


def test_missing_cells_are_marked(tmp_path):
    sweep_of(tmp_path, [(0.5, 0.9), (0.7, 0.9)], algorithm="erm")
    sweep_of(tmp_path, [(0.5, None), (0.7, None)], algorithm="coral")
    sweep_of(tmp_path, [(0.5, 0.9), (0.7, None)], algorithm="cma")
    table = accuracy_table(read_runs(tmp_path), "oracle")
    section = table.sections[0]
    assert cells(section, "coral") == {"a": "60.0 ± 7.1", "b": "–", "average": "–"}
    assert cells(section, "cma") == {"a": "60.0 ± 7.1", "b": "90.0*", "average": "70.0*"}
    assert [row.algorithm for row in section.rows] == ["erm", "coral", "cma"]
    text = table.to_text()
    assert "– no finished run that could be selected." in text
    assert "* over fewer finished runs than 2 trials of 1 set." in text
    frame = table.to_frame().set_index(["algorithm", "column"])
    assert np.isnan(frame.loc[("coral", "b"), "mean"])
    assert list(frame.loc["cma", "complete"]) == [True, False, False]
    assert list(frame.loc["cma", "trials"]) == [2, 1, 1]


def test_there_is_no_average_over_data_sets_where_one_is_missing(tmp_path):
    for dataset, value in (("one", 0.5), ("two", 0.7)):
        sweep_of(tmp_path, [(value, value)], dataset=dataset, algorithm="erm")
    sweep_of(tmp_path, [(0.9, 0.9)], dataset="two", algorithm="cma")
    sweep_of(tmp_path, [(0.9, 0.9)], dataset="one", algorithm="coral")
    sweep_of(tmp_path, [(0.9, None)], dataset="two", algorithm="coral")
    over = accuracy_table(read_runs(tmp_path), "oracle").sections[-1]
    assert cells(over, "erm") == {"one": "50.0", "two": "70.0", "average": "60.0"}
    assert cells(over, "cma") == {"one": "–", "two": "90.0", "average": "–"}
    assert cells(over, "coral") == {"one": "90.0", "two": "–", "average": "–"}


def test_a_set_that_is_missing_somewhere_is_marked(tmp_path):
    folders = write_fake_sweep(tmp_path, algorithms=("erm",), trials=1, hparams=2)
    for name in ("run.json", "records.jsonl"):
        (folders[0] / name).unlink()
    table = accuracy_table(read_runs(tmp_path), "oracle")
    assert [cell.complete for cell in table.sections[0].rows[0].cells] == [False, True, True, False]


def test_runs_that_are_planned_and_not_begun_are_missing(tmp_path):
    sweep_of(tmp_path, [(0.5, 0.9)], algorithm="erm")
    configs = [
        make_config(dataset="toy", algorithm=algorithm, test_domains=[domain], trial=trial)
        for algorithm, domain, trial in (("erm", "a", 1), ("cma", "b", 0))
    ]
    path = write_planned(tmp_path, [(str(i), config, ("a", "b")) for i, config in enumerate(configs)])
    sweep = read_runs(tmp_path)
    assert sweep.problems == [
        f"Not begun, 2 of 2 planned runs. Run the sweep again to continue it, or remove {path.parent} to cancel them."
    ]
    section = accuracy_table(sweep, "oracle").sections[0]
    assert cells(section, "erm") == {"a": "50.0*", "b": "90.0*", "average": "70.0*"}
    assert cells(section, "cma") == {"a": "–", "b": "–", "average": "–"}
    path.write_text("{")
    assert "cannot be read" in read_runs(tmp_path).problems[0]


def test_domains_that_were_not_tested_are_no_columns(tmp_path):
    config = make_config(dataset="colored-mnist", test_domains=["-90%"])
    lines = [record(9, "accuracy", 0.5, name, split) for name in ("+90%", "+80%", "-90%") for split in ("in", "out")]
    write_run(tmp_path, config, lines)
    table = accuracy_table(read_runs(tmp_path), "oracle")
    assert table.sections[0].columns == ("-90%", "average")
    assert "1 of 3 domains were tested" in table.to_text()
    (published,) = (row for row in table.sections[0].rows if row.published)
    assert [cell.mean is None for cell in published.cells] == [False, True]  # the paper's average is over all domains


def test_published_numbers_stand_beside_ours(tmp_path):
    for dataset, domains in (
        ("colored-mnist", ("+90%", "+80%", "-90%")),
        ("terra-incognita", ("location_100", "location_38", "location_43", "location_46")),
    ):
        for algorithm in ("erm", "cma", "vrex"):
            sweep_of(tmp_path, [(0.5,) * len(domains)], domains=domains, dataset=dataset, algorithm=algorithm)
    digits, terra, both = accuracy_table(read_runs(tmp_path), "oracle").sections
    published = {"+90%": "70.9 ± 0.6", "+80%": "72.2 ± 0.2", "-90%": "44.3 ± 2.9", "average": "62.5 ± 0.9"}
    assert cells(digits, "cma", published=True) == published
    assert cells(digits, "vrex", published=True) == {"+90%": "", "+80%": "", "-90%": "", "average": "66.1 ± 4.6"}
    assert cells(terra, "cma", published=True)["location_38"] == "44.7 ± 2.4†"
    assert any("swapped" in note for note in terra.notes)
    assert terra.heads == ("L100", "L38", "L43", "L46", "average")
    assert not any(row.published for row in terra.rows if row.algorithm == "vrex")
    # The paper's averages are over five data sets, not over these two.
    assert cells(both, "cma", published=True) == {
        "colored-mnist": "62.5 ± 0.9",
        "terra-incognita": "38.4 ± 1.2",
        "average": "",
    }
    assert cells(both, "erm")["average"] == "50.0"


def test_text_is_aligned_and_complete_in_a_narrow_terminal(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    domains = ("a name that is long", "b", "c", "d")
    sweep_of(tmp_path, [(0.5, 0.9, 0.6, 1.0), (0.7, None, 0.6, 0.6)], domains=domains)
    sweep_of(tmp_path, [(0.5, 0.9, 0.6, 1.0), (0.7, 0.9, 0.6, 0.6)], domains=domains, algorithm="cma")
    _, _, head, rule, erm, cma, *_ = accuracy_table(read_runs(tmp_path), "oracle").to_text().splitlines()
    assert re.split(r" {2,}", head.strip()) == ["a name that is long", "b", "c", "d", "average"]
    assert rule == "─" * len(head)
    # A mark hangs to the right of the digits.
    assert erm.index("*") == cma.index("90.0 ± 0.0") + len("90.0 ± 0.0")


def test_columns_that_do_not_fit_stand_below(tmp_path):
    domains = ("a name that is long", "b", "c", "d")
    sweep_of(tmp_path, [(0.5, 0.9, 0.6, 1.0), (0.7, None, 0.6, 0.6)], domains=domains)
    table = accuracy_table(read_runs(tmp_path), "oracle")
    blocks = table.to_text(50).split("\n\n")[1:-1]
    assert [re.split(r" {2,}", block.splitlines()[0].strip()) for block in blocks] == [[*domains[:3]], ["d", "average"]]
    rows = [block.splitlines() for block in blocks]
    assert all(len(line) <= 50 for lines in rows for line in lines)
    assert re.split(r" {2,}", f"{rows[0][2]}  {rows[1][2].removeprefix('ERM').strip()}") == [
        "ERM", *(cells(table.sections[0], "erm")[name] for name in (*domains, "average"))
    ]  # fmt: skip
    for width, expected in ((None, table.to_text()), ("50", table.to_text(50)), ("1", table.to_text(1))):
        done = CliRunner().invoke(app, ["table", str(tmp_path), "--select", "oracle"], env={"COLUMNS": width})
        assert done.stdout == expected, width


def test_digits_are_not_mnist(tmp_path):
    write_fake_sweep(tmp_path, dataset="colored-digits", trials=1, hparams=1)
    assert not any(row.published for row in accuracy_table(read_runs(tmp_path), "oracle").sections[0].rows)


def test_baselines_average_with_its_erratum(tmp_path):
    for dataset, domains in (("colored-mnist", ("+90%",)), ("rotated-mnist", ("0",))):
        sweep_of(tmp_path, [(0.5,)], domains=domains, dataset=dataset)
    both = accuracy_table(read_runs(tmp_path), "training-domain").sections
    # One domain cannot be validated on others: the table is there, its cells are missing.
    assert cells(both[-1], "erm", published=True)["average"] == "75.8†"
    assert "† the paper prints 75.8; its own numbers average to 74.75." in both[-1].notes


def test_worst_group_has_two_decimals_and_the_standard_error(tmp_path):
    write_fake_probes(tmp_path, algorithms=("erm", "cma"))
    sweep = read_runs(tmp_path)
    table = accuracy_table(sweep, "worst-group")
    chosen = select(sweep, "worst-group")
    values = 100 * chosen[chosen["algorithm"] == "cma"]["test"].to_numpy()
    expected = f"{values.mean():.2f} ± {values.std(ddof=1) / np.sqrt(5):.2f}"
    assert cells(table.sections[0], "cma")["worst group"] == expected
    assert cells(table.sections[0], "cma", published=True) == {"average": "90.11 ± 0.17", "worst group": "86.16 ± 0.29"}
    assert "ddof 1" in table.to_text()


def test_the_rules_own_their_tables(tmp_path):
    write_fake_sweep(tmp_path, trials=1, hparams=1, pairs=True)
    for rule in ("oracle", "training-domain", "leave-one-domain-out"):
        table = accuracy_table(read_runs(tmp_path), rule)
        assert table.rule == rule
        assert rule in table.sections[0].title
        assert all(cell.mean is not None for row in table.sections[0].rows for cell in row.cells)
    assert accuracy_table(read_runs(tmp_path), "worst-group").sections == ()


def test_leave_one_out_without_pairs_says_what_it_takes(tmp_path):
    write_fake_sweep(tmp_path, trials=1, hparams=1)
    said = accuracy_table(read_runs(tmp_path), "leave-one-domain-out").to_text()
    assert "a run for each pair of test domains, which sweep --select leave-one-domain-out adds." in said


@pytest.fixture
def hostile(tmp_path):
    sweep_of(tmp_path, [(0.5,) * len(HOSTILE)], domains=HOSTILE, dataset=HOSTILE[0], algorithm="[" + HOSTILE[2])
    return accuracy_table(read_runs(tmp_path), "oracle")


def test_hostile_names_stay_text_in_a_terminal(hostile):
    text = hostile.to_text()
    assert "\x1b" not in text
    assert "line\\nbreak\\x1b[31m" in text


def test_hostile_names_stay_text_in_markdown(hostile):
    text = hostile.to_markdown()
    assert "<script" not in text
    assert "\x1b" not in text
    assert "&lt;script&gt;" in text
    assert r"\[k\](http://e)" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} == {len(HOSTILE) + 3}


def test_hostile_names_stay_text_in_latex(hostile):
    text = hostile.to_latex()
    for bad in ("<script", "a & b", "b_c", "50% ", " $x", " #~", "\n[", "\\z", "\x1b"):
        assert bad not in text
    assert r"a \& b\_c \textbar{} 50\% \$x\textasciicircum{}2\$ \{y\} \textbackslash{}z \#" in text
    body = text[text.index(r"\midrule") : text.index(r"\bottomrule")]
    assert len(re.findall(r"(?<!\\)&", body)) == len(HOSTILE) + 1


def test_hostile_names_survive_csv(hostile):
    rows = list(csv.DictReader(io.StringIO(hostile.to_csv())))
    assert [row["column"] for row in rows] == [*HOSTILE[:3], "line\\nbreak\\x1b[31m", "average"]
    assert {row["algorithm"] for row in rows} == {"[" + HOSTILE[2]}
    assert float(rows[0]["mean"]) == 50.0


def test_markdown_and_latex_show_what_text_shows(tmp_path):
    write_fake_sweep(tmp_path, dataset="colored-mnist", failed=2)
    table = accuracy_table(read_runs(tmp_path), "oracle")
    numbers = re.findall(r"\d+\.\d ± \d+\.\d", table.to_text())
    assert len(numbers) > 20
    assert re.findall(r"\d+\.\d ± \d+\.\d", table.to_markdown()) == numbers
    assert re.findall(r"\d+\.\d ± \d+\.\d", table.to_latex().replace(r"$\pm$", "±")) == numbers
    for rule in (r"\toprule", r"\midrule", r"\bottomrule"):
        assert table.to_latex().count(rule) == 1


@pytest.fixture
def compared(tmp_path):
    """CMA ten points above ERM on a, as good on b."""
    sweep_of(tmp_path, [(0.5, 0.9), (0.6, 0.7), (0.7, 0.8)])
    sweep_of(tmp_path, [(0.6, 0.9), (0.7, 0.7), (0.8, 0.8)], algorithm="cma")
    return tmp_path


def test_tables_end_in_the_answer_and_csv_has_no_words(compared):
    (section,) = (table := accuracy_table(read_runs(compared), "oracle")).sections
    sentence = section.words[-1]
    assert sentence.startswith(
        "On a, CMA is 10.0 points better than ERM (95% interval 10.0 to 10.0, 3 trials); on b it is"
    )
    assert table.to_text().rstrip().endswith(sentence)
    assert table.to_markdown().rstrip().endswith(sentence)
    assert "CMA is 10.0 points better than ERM" in table.to_latex()
    assert "better" not in table.to_csv()


@pytest.mark.parametrize("width", [60, 80])
def test_the_answer_is_wrapped_at_the_width_of_the_terminal(compared, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    lines = command(compared, "--select", "oracle").stdout.splitlines()
    assert max(map(len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    assert text.endswith(accuracy_table(read_runs(compared), "oracle").sections[0].words[-1])


def test_latex_has_label_caption_and_the_best_within_its_uncertainty_in_bold():
    def row(name, cells, published=False):
        return ResultRow(name, name.upper(), published, tuple(ResultCell(*cell) for cell in cells))

    rows = (
        row("erm", [(80.0, 3.0, 3), (70.0, None, 1), (9.0, 0.1, 3)]),
        row("erm", [(99.0,), (99.0,), (1.0,)], published=True),
        row("cma", [(83.0, 1.0, 3), (71.0, None, 1), (8.0, 0.1, 3)]),
        row("irm", [(79.0, 1.0, 3), (70.96, None, 1), (None,)]),
    )
    columns = ("a", "b", "calibration error")
    section = TableSection("pacs", "my pacs", "finetune", "Pacs", ("A note.",), columns, columns, rows)
    lines = ResultTable("oracle", (section,)).to_latex().splitlines()
    assert r"\label{tab:my-pacs-oracle}" in lines
    assert (
        "\\caption{Pacs. Bold: the best, and all that differ from it by no more than the $\\pm$ of the two. A note.}"
        in lines
    )
    bold = {line.split(" & ")[0]: re.findall(r"\\textbf\{(\S+)", line) for line in lines if " & " in line}
    assert bold["ERM"] == ["80.0"]  # 3.0 below, within sqrt(3² + 1²)
    assert bold["CMA"] == ["83.0", "71.0}", "8.0"]  # the smallest error is the best
    assert bold["IRM"] == ["71.0}"]  # as rounded
    assert bold[r"\quad\textit{published}"] == []
    assert "phantom" not in "".join(lines)
    alone = TableSection("", "", "probe", "Pacs", (), columns, columns, rows[:1])
    assert "textbf" not in (text := ResultTable("oracle", (alone,)).to_latex())
    assert "Bold" not in text
    assert r"\label{tab:all-probe-oracle}" in text


def test_digits_line_up_beside_marks_in_latex():
    cells = [(80.0, None, 2, False), (70.0, None, 3)], [(60.0, None, 3), (50.0, None, 3)], [(None,), (40.0, None, 3)]
    rows = tuple(ResultRow("erm", "ERM", False, tuple(ResultCell(*cell) for cell in line)) for line in cells)
    text = ResultTable("oracle", (TableSection("a", "a", "finetune", "A", (), "ab", "ab", rows),)).to_latex()
    assert r"ERM & \textbf{80.0{*}} & \textbf{70.0} \\" in text
    assert r"ERM & 60.0\phantom{{*}} & 50.0 \\" in text
    assert r"ERM & --\phantom{{*}} & 40.0 \\" in text


def test_tables_of_many_columns_fit_the_width_of_a_page_in_latex():
    def table(columns):
        row = ResultRow("erm", "ERM", False, (ResultCell(80.0),) * len(columns))
        return ResultTable("oracle", (TableSection("a", "a", "probe", "A", (), columns, columns, (row,)),)).to_latex()

    text = table((*"abcde", "worst-group F1"))
    assert r"& a & b & c & d & e & \shortstack[r]{worst-group\\F1} \\" in text
    assert "\n\\resizebox{" in text
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")
    assert "resizebox" not in table(tuple("abcde"))


def command(*arguments):
    return CliRunner().invoke(app, ["table", *map(str, arguments)])


def test_the_command_prints_and_writes(tmp_path):
    write_fake_sweep(tmp_path / "runs", failed=1)
    result = command(tmp_path / "runs", "--select", "training-domain", "--format", "markdown")
    assert result.exit_code == 0
    assert result.stdout == accuracy_table(read_runs(tmp_path / "runs"), "training-domain").to_markdown()
    assert "failed (RuntimeError: loss is not finite)" in result.stderr
    out = tmp_path / "new" / "table.csv"
    result = command(tmp_path / "runs", "--format", "csv", "-o", out)
    assert result.exit_code == 0
    assert out.read_text() == accuracy_table(read_runs(tmp_path / "runs"), "training-domain").to_csv()
    assert [path.name for path in out.parent.iterdir()] == ["table.csv"]
    assert "momentalign report" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--select", "orcale"], "but is 'orcale'. Did you mean 'oracle'?"),
        (
            ["--format", "latx"],
            "'--format' should be one of 'text', 'markdown', 'latex', 'csv', but is 'latx'. Did you mean",
        ),
        (
            ["--select", "worst-group"],
            "None of the 3 runs can be selected by worst-group, which needs runs with groups (a val and a test split). "
            "Use --select training-domain.",
        ),
        (["-o", "."], "'--out' should name a file"),
        (["--select", "extrapolated", "--reach=-1"], "'--reach' should be finite and not below 0, but is -1.0."),
        (["--select", "extrapolated", "--reach", "nan"], "'--reach' should be finite and not below 0, but is nan."),
    ],
)
def test_bad_options_are_one_line(tmp_path, arguments, message):
    write_fake_sweep(tmp_path, algorithms=("erm",), trials=1, hparams=1)
    result = command(tmp_path, *arguments)
    assert isinstance(result.exception, ValueError)
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)


ROWS = {domain: {"in": 4000, "out": 1000} for domain in ("a", "b", "c")}


def three_domains(folder, name, number, outside, test, rows=ROWS, **changes):
    """A run that tests c: accuracies on the others' held-out rows, and on c."""
    values = {("a", "out"): outside[0], ("b", "out"): outside[1], ("c", "in"): test, ("c", "out"): test}
    config = make_config(dataset="toy", test_domains=["c"], hparams_seed=number, **changes)
    lines = [record(300, "accuracy", value, *where) for where, value in values.items()]
    write_run(folder, config, lines, name=name, domains=("a", "b", "c"), **({"rows": rows} if rows else {}))


def test_extrapolated_tables_name_their_reach_and_follow_it(tmp_path):
    three_domains(tmp_path, "colour", 0, (1.0, 0.8), 0.1)
    three_domains(tmp_path, "shape", 1, (0.7, 0.7), 0.7)
    for reach, expected in ((0.0, "10.0"), (8.0, "70.0")):
        result = command(tmp_path, "--select", "extrapolated", "--reach", reach, "--format", "markdown")
        assert result.exit_code == 0
        assert f"toy: test accuracy in %, extrapolated selection (reach {reach:g})" in result.stdout
        assert f"best record by the worst domain's accuracy - {reach:g} ×" in result.stdout
        assert f"| ERM | {expected} | {expected} |" in result.stdout
        assert "numbers of rows" not in result.stdout


def test_extrapolated_tables_tell_which_runs_have_no_standard_errors(tmp_path):
    three_domains(tmp_path, "old", 0, (0.9, 0.8), 0.1, rows=None)
    (section,) = accuracy_table(read_runs(tmp_path), "extrapolated").sections
    assert "The runs did not record numbers of rows: standard errors of 0 were used." in section.notes
    three_domains(tmp_path, "new", 1, (0.7, 0.7), 0.7)
    (section,) = accuracy_table(read_runs(tmp_path), "extrapolated").sections
    assert "1 of 2 runs did not record numbers of rows: standard errors of 0 were used." in section.notes
    (section,) = accuracy_table(read_runs(tmp_path), "training-domain").sections
    assert not any("numbers of rows" in note for note in section.notes)


def test_the_oracle_is_called_what_it_is(tmp_path):
    three_domains(tmp_path, "x", 0, (0.9, 0.8), 0.1)
    (section,) = accuracy_table(read_runs(tmp_path), "oracle").sections
    assert "labels of the test domain" in section.notes[0]


def test_averaged_weights_have_their_row(tmp_path):
    for algorithm in ("erm", "cma"):
        three_domains(tmp_path, algorithm, 0, (0.7, 0.7), 0.6, algorithm=algorithm, average="sma")
        if algorithm == "cma":
            lines = (tmp_path / algorithm / "records.jsonl").read_text()
            averaged = lines.replace('"accuracy"', '"averaged_accuracy"').replace("0.6", "0.65")
            (tmp_path / algorithm / "records.jsonl").write_text(lines + averaged)
    (section,) = accuracy_table(read_runs(tmp_path), "training-domain").sections
    assert [(row.label, row.cells[0].text) for row in section.rows] == [
        ("ERM", "60.0"),
        ("CMA", "60.0"),
        ("CMA + SMA", "65.0"),
    ]
    assert all(cell.complete for row in section.rows for cell in row.cells)


def probe_on(folder, dataset, *, recipe="table", features=None):
    """One probe of a set with groups; published numbers have to find out what it is of."""
    config = make_config(
        dataset=dataset, algorithm="cma", test_domains=[], setting="probe", hparams={"l2": 1e-3, "recipe": recipe}
    )
    lines = [
        record(9, metric, 0.8, split=split)
        for split in ("val", "test")
        for metric in ("worst_group_accuracy", "accuracy")
    ]
    write_run(folder, config, lines, domains=("land", "water"), features=features)


WATERBIRDS = {"dataset": "waterbirds", "encoder": "hf:openai/clip-vit-base-patch32"}


@pytest.mark.parametrize(
    ("options", "published", "note"),
    [
        ({"features": WATERBIRDS}, True, "According to its file the features are of waterbirds, by hf:openai/clip-vit"),
        (
            {"features": WATERBIRDS | {"encoder": "/home/me/models/clip"}, "recipe": "celeba"},
            True,
            "features are of waterbirds, by clip.",
        ),
        ({"recipe": "waterbirds"}, True, "Assumed to be waterbirds because of --recipe waterbirds;"),
        ({"features": {"dataset": "mine", "encoder": "mlp"}, "recipe": "waterbirds"}, False, None),
        ({}, False, None),
        ({"name": "waterbirds.parquet"}, False, "No published numbers: only the file name suggests waterbirds."),
    ],
)
def test_published_numbers_of_probes_take_more_than_a_file_name(tmp_path, options, published, note):
    path = f"/home/me/{options.pop('name', 'features.parquet')}"
    probe_on(tmp_path, path, **options)
    (section,) = accuracy_table(read_runs(tmp_path), "worst-group").sections
    assert [row.published for row in section.rows] == ([False, True] if published else [False])
    if published:
        assert cells(section, "cma", published=True)["worst group"] == "86.16 ± 0.29"
    about = [line for line in section.notes if "waterbirds" in line]
    assert (note in about[0]) if note else not about
    assert "/home" not in accuracy_table(read_runs(tmp_path), "worst-group").to_text()


def test_data_sets_in_files_and_folders_go_by_short_names(tmp_path):
    for dataset in ("/one/clip/birds.parquet", "/two/clip/birds.parquet", "/three/photos"):
        sweep_of(tmp_path, [(0.5, 0.5)], dataset=dataset)
    table = accuracy_table(read_runs(tmp_path), "oracle")
    assert [section.label for section in table.sections] == ["one/clip/birds", "photos", "two/clip/birds", ""]
    assert table.sections[-1].columns == ("one/clip/birds", "photos", "two/clip/birds", "average")
    for text in (table.to_text(), table.to_markdown(), table.to_latex(), table.to_csv()):
        assert "/one" not in text
        assert "parquet" not in text
    assert list(table.to_frame()["dataset"].unique()) == ["one/clip/birds", "photos", "two/clip/birds", ""]


def test_a_folder_that_is_called_like_a_benchmark_is_not_it(tmp_path):
    for dataset, domains in (("/mine/pacs", ("photo", "sketch")), ("vlcs", ("LabelMe", "SUN09"))):
        sweep_of(tmp_path, [(0.5, 0.5)], domains=domains, dataset=dataset)
    vlcs, pacs, both = accuracy_table(read_runs(tmp_path), "oracle").sections
    assert (vlcs.label, pacs.label) == ("vlcs", "pacs")
    assert not any(row.published for row in pacs.rows)
    assert cells(both, "erm", published=True) == {"vlcs": "76.9 ± 0.3", "pacs": "", "average": ""}


def test_labels_differ_whatever_the_paths():
    names = ["/a/x.csv", "/a/x.parquet", "/b/x.csv", "x", "/x", r"C:\d\x.npz", "/a/y.v2.csv.gz", "/.csv", "/"]
    labels = dataset_labels(names)
    assert len(set(labels.values())) == len(names)
    assert labels["x"] == "x"
    assert labels["/a/y.v2.csv.gz"] == "y.v2"
    assert labels[r"C:\d\x.npz"] == "d/x"


def test_a_table_of_probes_by_the_default_rule_names_theirs(tmp_path):
    write_fake_probes(tmp_path, trials=1, hparams=1)
    result = command(tmp_path)
    assert str(result.exception) == (
        "None of the 2 runs can be selected by training-domain, which needs runs with one test domain. "
        "Use --select worst-group."
    )


LOST = "records are ignored from the first non-finite loss on."


def diverge(folders, step=0):
    """The loss of runs from a step on is null, as training writes what is not finite."""
    for folder in folders:
        lines = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
        for line in lines:
            if line["metric"] == "loss" and line["step"] >= step:
                line["value"] = None
        (folder / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def runs_of(folders, **wanted):
    found = []
    for folder in folders:
        config = json.loads((folder / "run.json").read_text())["config"]
        if all(config[name] == value for name, value in wanted.items()):
            found.append(folder)
    return found


def test_a_set_that_diverged_does_not_compete_and_is_not_missing(tmp_path):
    folders = write_fake_sweep(tmp_path, algorithms=("erm",), trials=2, hparams=3)
    best = select(read_runs(tmp_path), "oracle").set_index(["test_domain", "trial"]).loc[("-90%", 0)]
    diverge([tmp_path / best["run"]])
    sweep = read_runs(tmp_path)
    other = select(sweep, "oracle").set_index(["test_domain", "trial"]).loc[("-90%", 0)]
    assert other["run"] != best["run"]
    (section,) = accuracy_table(sweep, "oracle").sections
    assert all(cell.complete and cell.trials == 2 for cell in section.rows[0].cells)
    assert f"1 run diverged: {LOST}" in section.notes
    assert not any(note.startswith(("*", "–")) for note in section.notes)
    diverge(runs_of(folders, trial=1, test_domains=["+90%"], hparams_seed=0))
    assert f"2 runs diverged: {LOST}" in accuracy_table(read_runs(tmp_path), "oracle").sections[0].notes


def test_where_all_sets_diverged_the_cell_is_empty(tmp_path):
    folders = write_fake_sweep(tmp_path, algorithms=("erm", "cma"), trials=2, hparams=2)
    diverge(runs_of(folders, algorithm="cma", test_domains=["-90%"]))
    diverge(runs_of(folders, algorithm="cma", test_domains=["+80%"], trial=1))
    for rule in ("oracle", "training-domain"):
        (section,) = accuracy_table(read_runs(tmp_path), rule).sections
        assert all(cell.complete for cell in section.rows[0].cells)
        found = cells(section, "cma")
        assert (found["-90%"], found["average"]) == ("–", "–")
        assert found["+80%"].endswith("*")  # over one trial and not over two
        assert not found["+90%"].endswith("*")
        assert f"6 runs diverged: {LOST}" in section.notes


def test_what_was_recorded_before_counts_for_training_domains(tmp_path):
    folders = write_fake_sweep(tmp_path, algorithms=("erm",), trials=1, hparams=1)
    diverge(folders, step=200)
    sweep = read_runs(tmp_path)
    (section,) = accuracy_table(sweep, "training-domain").sections
    assert all(cell.complete and cell.mean is not None for cell in section.rows[0].cells)
    assert set(select(sweep, "training-domain")["step"]) <= {0, 100}
    (section,) = accuracy_table(sweep, "oracle").sections
    assert {cell.text for cell in section.rows[0].cells} == {"–"}


def test_leave_one_domain_out_counts_pairs_that_diverged(tmp_path):
    folders = write_fake_sweep(tmp_path, algorithms=("erm",), trials=1, hparams=2, pairs=True)
    diverge(runs_of(folders, hparams_seed=1, test_domains=["+90%", "+80%"]))
    sweep = read_runs(tmp_path)
    (section,) = accuracy_table(sweep, "leave-one-domain-out").sections
    assert all(cell.complete and cell.mean is not None for cell in section.rows[0].cells)
    assert f"1 run diverged: {LOST}" in section.notes
    assert not any("diverged" in note for note in accuracy_table(sweep, "oracle").sections[0].notes)
    diverge(runs_of(folders, hparams_seed=1, test_domains=["-90%"]))
    sweep = read_runs(tmp_path)
    for rule, runs in (("leave-one-domain-out", "2 runs"), ("oracle", "1 run"), ("training-domain", "1 run")):
        assert f"{runs} diverged: {LOST}" in accuracy_table(sweep, rule).sections[0].notes


def test_probes_that_diverged_are_in_the_notes(tmp_path):
    folders = write_fake_probes(tmp_path, algorithms=("erm", "cma"), hparams=4, trials=2)
    diverge(runs_of(folders, algorithm="cma", hparams_seed=3))
    (stopped,) = runs_of(folders, algorithm="cma", hparams_seed=2, trial=0)
    about = json.loads((stopped / "run.json").read_text())
    (stopped / "run.json").write_text(json.dumps(about | {"status": "failed", "error": "no", "diverged_at": 12}))
    sweep = read_runs(tmp_path)
    assert set(select(sweep, "worst-group").query("algorithm == 'cma'")["hparams_seed"]) <= {0, 1}
    (section,) = accuracy_table(sweep, "worst-group").sections
    assert all(cell.complete for row in section.rows for cell in row.cells)
    assert f"3 runs diverged: {LOST}" in section.notes
    assert any(note.startswith("Sets of hyper-parameters: ERM 4, CMA 4. Mean over 2") for note in section.notes)


def test_a_table_of_probes_that_all_diverged_is_empty(tmp_path):
    diverge(write_fake_probes(tmp_path, algorithms=("cma",), hparams=2, trials=1))
    (section,) = accuracy_table(read_runs(tmp_path), "worst-group").sections
    assert cells(section, "cma") == {"average": "–", "worst group": "–"}
    assert "Sets of hyper-parameters: CMA 2." in section.notes
    assert f"2 runs diverged: {LOST}" in section.notes


def test_the_command_names_runs_that_diverged(tmp_path):
    folders = write_fake_sweep(tmp_path, algorithms=("cma",), trials=1, hparams=2)
    diverge(folders[:1], step=100)
    result = command(tmp_path)
    assert result.exit_code == 0
    assert f"{folders[0].name}: cma diverged; from the record at step 100 on its loss is not finite" in result.stderr
