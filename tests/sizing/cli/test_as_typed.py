"""`ckpt-size` takes what people type, and names what they typed where it cannot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sizing.cli.flags import FLAGS
from sizing.cli.main import FLAGS_ELSEWHERE, FLAGS_WITHOUT_EFFECT, main
from sizing.cli.verbs import app
from tests.testbed.terminal import ckpt_size, typed


def report(*arguments: str) -> dict[str, Any]:
    found = ckpt_size(*arguments, "--json")
    assert found.returncode == 0, found.stderr
    document: dict[str, Any] = json.loads(found.stdout)
    return document


def refusal(*arguments: str, cwd: Path | None = None) -> str:
    found = ckpt_size(*arguments, cwd=cwd)
    assert (found.returncode, found.stdout) == (2, "")
    (line,) = found.stderr.splitlines()
    assert line.startswith("error: ")
    assert line.endswith(".")
    return line.removeprefix("error: ")


def test_quantities_and_names_are_read_as_people_write_them() -> None:
    typed = report(
        *("--model", "Llama-3.1-405B", "--node", "DGX-H200", "--tensor", "8", "--write-bandwidth", "500 gb/s"),
        *("--interval", "1hr", "--max-overhead", "5%", "--mtbf", "9 Hours", "--format", "torch_dist"),
    )
    exact = report(
        *("--model", "llama-3.1-405b", "--node", "dgx-h200", "--tensor", "8", "--write-bandwidth", "500GB/s"),
        *("--interval", "3600s", "--max-overhead", "0.05", "--mtbf", "32400s", "--format", "torch-dist"),
    )
    assert typed == exact
    assert report("--parameters", "400B")["model"]["num_parameters"] == 400_000_000_000


@pytest.mark.parametrize("flag", [flag.name for flag in FLAGS if flag.field.endswith("_bytes_per_second")])
def test_a_rate_without_a_unit_is_refused(flag: str) -> None:
    assert refusal("--model", "gpt2", flag, "500") == (
        f"{flag} is a rate without a unit, got '500': write the unit too, for example 500 GB/s."
    )


@pytest.mark.parametrize(
    ("rate", "example"),
    [("10000000000.0", "10 GB/s"), ("12345678901.5", "12.3456789015 GB/s"), ("2000000", "0.002 GB/s")],
)
def test_a_rate_in_bytes_without_a_unit_is_offered_with_its_value(rate: str, example: str) -> None:
    assert refusal("--model", "gpt2", "--write-bandwidth", rate).endswith(f"write the unit too, for example {example}.")


def test_a_comma_of_thousands_in_a_rate_of_a_sweep_makes_no_list() -> None:
    run = ("--model", "gpt2", "--figure", "write.seconds")
    typed = report("sweep", *run, "--write-bandwidth", "500GB/s,1,000GB/s,2,500.5 GB/s")
    assert [row[0] for row in typed["rows"]] == [5e11, 1e12, 2.5005e12]
    alone = report("sweep", *run, "--write-bandwidth", "1,000GB/s", "--interval", "1h,2h")
    assert alone["columns"] == ["checkpoint.interval_seconds", "write.seconds"]


@pytest.mark.parametrize(
    ("interval", "says"),
    [
        (
            "1h..4h",
            "--interval is a range without the number of its values, got '1h..4h': write 1h..4h:5 for five values.",
        ),
        ("1h..4h:log", "write 1h..4h:5:log for five values."),
        ("1h..4h:0", "--interval must be at least 2 as the number of values, got 0: give 2 or more."),
    ],
)
def test_a_range_says_what_its_number_of_values_lacks(interval: str, says: str) -> None:
    assert refusal("sweep", "--model", "gpt2", "--interval", interval).endswith(says)


def test_what_a_simulation_lacks_is_named_by_flags_and_by_fields_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("model: {preset: gpt2}\nstorage: {profile: {write_bytes_per_second: 1 GB/s}}\n")
    lacks = "the scenario must have a failure rate to be simulated: give --mtbf or --failures-per-node-day"
    fields = "reliability.mtbf_seconds or reliability.failures_per_node_day"
    assert refusal("simulate", "run.yaml", cwd=tmp_path) == f"{lacks}, or in run.yaml {fields}."
    assert refusal("simulate", "--model", "gpt2", "--write-bandwidth", "1GB/s") == f"{lacks}."


@pytest.mark.parametrize("flag", [flag.name for flag in FLAGS if flag.metavar == "SIZE"])
def test_a_size_without_a_unit_is_refused(flag: str) -> None:
    assert refusal("--model", "gpt2", flag, "80") == (
        f"{flag} is a size without a unit, got '80': write the unit too, for example 80 GB or 80 B."
    )


def test_a_size_without_a_unit_is_refused_of_a_question_and_in_a_list_too() -> None:
    refused = refusal("rematerialize", "--model", "gpt2", "--gpu-memory", "80")
    assert refused.startswith("--gpu-memory is a size without a unit")
    assert refusal("sweep", "--model", "gpt2", "--staging", "8GiB,9").startswith("--staging is a size without a unit")


def test_a_rate_without_a_unit_is_refused_in_a_list_too() -> None:
    assert refusal("sweep", "--model", "gpt2", "--write-bandwidth", "500,600").startswith("--write-bandwidth is a rate")


@pytest.mark.parametrize("flag", [flag.name for flag in FLAGS if flag.field.endswith("_seconds")])
def test_a_duration_without_a_unit_is_refused(flag: str) -> None:
    assert refusal("--model", "gpt2", flag, "90") == (
        f"{flag} is a duration without a unit, got '90': write the unit too, for example 90s, 90min or 90h."
    )


def test_a_duration_without_a_unit_is_refused_in_lists_ranges_and_of_a_simulation_too() -> None:
    assert refusal("sweep", "--model", "gpt2", "--interval", "1h,90").startswith(
        "--interval is a duration without a unit"
    )
    assert refusal("sweep", "--model", "gpt2", "--interval", "1..9:3").startswith("--interval is a duration without")
    assert refusal("simulate", "--model", "gpt2", "--lasting", "30").startswith(
        "--lasting is a duration without a unit"
    )


def test_zero_needs_no_unit_of_time() -> None:
    arguments = ("--model", "gpt2", "--mtbf", "9h", "--write-bandwidth", "1GB/s", "--detection")
    assert report(*arguments, "0") == report(*arguments, "0s")


@pytest.mark.parametrize("flag", ["--gpus", "--data"])
def test_counts_may_have_commas_between_thousands(flag: str) -> None:
    assert report("--model", "gpt2", flag, "2,048") == report("--model", "gpt2", flag, "2048")


@pytest.mark.parametrize("text", ["2,04", "20,48", "2,0480", ",048", "2,048,"])
def test_other_commas_in_a_count_are_refused(text: str) -> None:
    assert refusal("--model", "gpt2", "--gpus", text).startswith("--gpus must be a whole number")


def test_a_warning_names_the_flag_to_change_where_no_file_has_the_field(tmp_path: Path) -> None:
    arguments = ("--write-bandwidth", "1GB/s", "--staging", "8GiB")
    shown = ckpt_size("--model", "gpt2", *arguments).stdout
    assert "warning: --staging has no effect with mode sync" in shown
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps({"model": {"preset": "gpt2"}, "checkpoint": {"staging_bytes": "8GiB"}}))
    assert "warning: checkpoint.staging_bytes has no effect" in ckpt_size(str(path), *arguments[:2]).stdout
    assert "warning: --staging has no effect with mode sync" in ckpt_size(str(path), *arguments).stdout


def test_a_choice_that_begins_as_typed_is_suggested_first() -> None:
    assert refusal("--model", "gpt2", "--precision", "fp16").endswith("got 'fp16': did you mean fp16-mixed.")
    assert refusal("--model", "gpt2", "--precision", "bf16-mxed").endswith("did you mean bf16-mixed.")


def test_help_tells_an_example_from_a_default() -> None:
    shown = " ".join(ckpt_size("answer", "--help-all").stdout.replace("│", " ").split())
    assert "(reliability.mtbf_seconds; e.g. 9h)" in shown
    assert "(parallelism.tensor; default: 1)" in shown
    assert "(checkpoint.mode; one of sync, async; default: sync)" in shown


def test_a_number_in_a_file_is_in_base_units(tmp_path: Path) -> None:
    profile = {"write_bytes_per_second": 500}
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps({"model": {"preset": "gpt2"}, "storage": {"profile": profile}}))
    assert report(str(path))["write"]["bytes_per_second"] == pytest.approx(500)


def test_a_duration_that_is_too_long_to_be_one_is_refused_not_cut() -> None:
    assert "--interval must have at most 64 characters" in refusal("--model", "gpt2", "--interval", "1h  " * 30)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("modles", "models"),
        ("simluate", "simulate"),
        ("requires", "require"),
        ("Nodes", "nodes"),
    ],
)
def test_a_misspelt_verb_is_told_the_right_one(typed: str, meant: str, tmp_path: Path) -> None:
    sentence = f"{typed} is neither a file nor a verb of ckpt-size: did you mean {meant}."
    assert refusal(typed, cwd=tmp_path) == sentence


def test_a_file_goes_before_a_suggestion(tmp_path: Path) -> None:
    (tmp_path / "model").write_text('{"model": {"preset": "gpt2"}}')
    assert ckpt_size("model", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--tp", "--tensor"),
        ("--modle", "--model"),
        ("--pp", "--pipeline"),
        ("--dp", "--data"),
        ("--ep", "--expert"),
        ("--cp", "--context"),
        ("--mbs", "--micro-batch"),
        ("--gbs", "--global-batch"),
        ("--tensor-model-parallel-size", "--tensor"),
        ("--num-gpus", "--gpus"),
        ("--tensro", "--tensor"),
        ("--save-every", "--interval-steps"),
        ("--peft", "--lora-rank"),
        ("--cpu-offload", "--offload-optimizer"),
        ("--micro_batch", "--micro-batch"),
        ("--per_device_train_batch_size", "--micro-batch"),
        ("--use_dora", "--dora"),
        ("--model_name_or_path", "--model"),
        ("--bf16", "--precision"),
        ("--deepspeed", "--framework"),
        ("--stage", "--zero-stage"),
        ("--gradient_checkpointing", "--recomputation"),
        ("--num_train_epochs", "--tokens"),
        ("--calibration", "--storage"),
    ],
)
def test_a_flag_that_is_none_is_told_the_right_one(typed: str, meant: str) -> None:
    assert refusal("--model", "gpt2", typed, "8") == (
        f"{typed} is not a flag of ckpt-size answer: did you mean {meant}."
    )


@pytest.mark.parametrize("typed", ["--lora-alpha", "--lora_dropout", "--learning_rate"])
def test_a_flag_that_changes_no_answer_is_said_to_change_none(typed: str) -> None:
    assert refusal("--model", "gpt2", typed, "8") == (
        f"{typed} changes neither sizes nor times of checkpoints: leave it out."
    )


def test_cpu_is_the_host() -> None:
    given = ("--model", "gpt2", "--framework", "deepspeed", "--data", "2", "--offload-optimizer")
    assert report(*given, "cpu") == report(*given, "host")


@pytest.mark.parametrize("flags", [["--save-only-model", "--data", "8"], ["--data", "8", "--save-only-model"]])
def test_a_flag_of_yes_or_no_alone_means_yes(flags: list[str]) -> None:
    assert report("--model", "gpt2", *flags) == report("--model", "gpt2", "--data", "8", "--save-only-model", "yes")


@pytest.mark.parametrize(
    ("typed", "remedy"),
    [
        ("nemo2", "did you mean nemo."),
        ("fsdp", "did you mean fsdp2."),
        ("colossalai", "give what it runs on, of megatron, fsdp2, torchtitan, deepspeed, "),
    ],
)
def test_a_framework_that_is_not_known_is_told_what_is(typed: str, remedy: str) -> None:
    said = refusal("--model", "gpt2", "--framework", typed)
    assert said.startswith("--framework must be ")
    assert remedy in said


def test_the_names_of_other_tools_lead_to_flags_that_there_are_and_hide_none() -> None:
    names = {flag.name for flag in FLAGS} | {"--storage"}  # which reads a file, and sets no field
    assert set(FLAGS_ELSEWHERE.values()) <= names
    assert not names & set(FLAGS_ELSEWHERE)
    assert not FLAGS_WITHOUT_EFFECT & (names | set(FLAGS_ELSEWHERE))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--model gpt2 --pipeline 13", "--pipeline must be at most num_layers 12, got 13"),
        ("--model zephyr", "is like it; of another model give the config.json (`--hf-config`) or --parameters; "),
        (
            "--parameters 47B --active 13B --experts 8",
            "has --active 13B, which 8 of 8 experts do not allow: give --experts-per-token, here at most 2, or --active of "
            "47B or more.",
        ),
        ("--model gpt2 --node dgx-h10", "--node must be a name of the catalog, got 'dgx-h10': the nearest"),
        ("--model gpt2 --max-overhead 5", "--max-overhead must be at most 1, got '5'"),
        ("--model gpt2 --sequence-length 2048", "training has --sequence-length without --micro-batch"),
        ("--model gpt2 --data 8 --gpus 16", "got 16: change a degree or --gpus."),
        ("layouts --model gpt2 --gpus 0", "--gpus must be at least 1, got '0'"),
        ("layouts --model gpt2 --gpus 8 --headroom 2", "--headroom must be at most 0.9, got '2'"),
        ("simulate --model gpt2 --mtbf 9h --lasting soon", "--lasting is not a duration, got 'soon'"),
        ("require --model gpt2 --recovery x", "--recovery is not a duration, got 'x'"),
        ("--model gpt2 --storage lustre", "named lustre: of a storage system by its name give --write-bandwidth"),
        (
            "manifest --model gpt2 --optimizer adan",
            "--optimizer must be a known name, got 'adan': the nearest, adam, keeps 8 bytes of each value; choose",
        ),
    ],
)
def test_a_sentence_names_the_flag_that_was_typed(arguments: str, sentence: str) -> None:
    assert sentence in refusal(*arguments.split())


def test_what_a_file_says_keeps_the_name_of_its_field(tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps({"model": {"preset": "gpt2"}, "parallelism": {"tensor": 0}}))
    assert refusal(str(path), "--data", "2").startswith("parallelism.tensor must be at least 1, got 0")


def test_the_number_of_gpus_is_enough_and_the_report_says_which_layout_it_took() -> None:
    found = report("--model", "llama-3.1-405b", "--gpus", "2048")
    assert found["layout"]["num_gpus"] == 2048
    assert found["assumptions"][0]["field"] == "parallelism"
    assert found["assumptions"][0]["value"] == "tensor 8, pipeline 16, data 16"
    kept = report("--model", "llama-3.1-405b", "--gpus", "2048", "--tensor", "4")
    assert kept["assumptions"][0]["value"] == "pipeline 64, data 8"


@pytest.mark.parametrize("verb", ["require", "manifest"])
def test_a_verb_without_assumptions_notes_the_layout_beside_its_answer(verb: str) -> None:
    found = ckpt_size(verb, "--model", "llama-3.1-405b", "--gpus", "2048", "--write-bandwidth", "1TB/s")
    assert found.returncode == 0
    assert found.stderr.startswith("note: parallelism = tensor 8, pipeline 16, data 16 (chosen for you: ")


@pytest.mark.parametrize("word", ["models", "nodes", "storage", "formats", "frameworks", "failure-rates", "techniques"])
def test_a_catalog_is_listed_whole_as_json(word: str) -> None:
    listed = json.loads(ckpt_size(word, "--json").stdout)
    assert len(listed) > 3
    assert all(entry["name"] and entry["source"] for entry in listed)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["models", "Llama 405"], ["llama-3.1-405b"]),
        (["nodes", "h200"], ["dgx-h200", "hgx-h200", "azure-nd-h200-v5"]),
        (["storage", "yanrong"], ["mlperf-v3-yanrong-f9000x"]),
        (["formats", "DEEPSPEED"], ["deepspeed"]),
        (["techniques", "8-bit Adam"], ["8-bit Adam"]),
        (["models", "deepseek-v"], ["deepseek-v2-lite", "deepseek-v2", "deepseek-v3", "deepseek-v3.2"]),
        (["nodes", "mi300x"], ["azure-nd-mi300x-v5", "mi300x-x8"]),
    ],
)
def test_a_word_keeps_what_has_it_in_its_name(arguments: list[str], names: list[str]) -> None:
    assert [entry["name"] for entry in json.loads(ckpt_size(*arguments, "--json").stdout)] == names
    shown = ckpt_size(*arguments).stdout
    assert all(name in shown for name in names)


def test_a_word_that_stands_in_no_name_is_looked_for_in_the_lines() -> None:
    kinds = {entry["kind"] for entry in json.loads(ckpt_size("techniques", "activation-offload", "--json").stdout)}
    assert kinds == {"activation-offload"}


def test_a_word_that_stands_nowhere_is_told_the_nearest_name() -> None:
    assert refusal("nodes", "dgx-h300") == (
        "the word fits none of the 46 nodes, got 'dgx-h300': the nearest names are dgx-h200, dgx-h100, dgx-b300."
    )


def test_every_verb_that_takes_a_scenario_takes_every_flag() -> None:
    verbs = {"answer", "manifest", "require", "sweep", "simulate", "layouts"}
    for command in app.registered_commands:
        if command.name in verbs:
            shown = ckpt_size(str(command.name), "--help-all").stdout
            assert "--tensor" in shown
            assert "--min-goodput" in shown


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ("--model gpt2 --parameters 7B", "found --model and --parameters"),
        (
            "--model gpt2 --storage-preset local-nvme-raid0-8x-gen5 --write-bandwidth 5GB/s",
            "found --storage-preset and --write-bandwidth",
        ),
        (
            "--model mixtral-8x7b --delta 0.1 --delta-full-every 8 --experts-per-save 2",
            "checkpoint.reduction has both --delta and --experts-per-save: remove one of them.",
        ),
    ],
)
def test_flags_that_exclude_each_other_are_refused(arguments: str, found: str) -> None:
    refused = ckpt_size(*arguments.split())
    assert refused.returncode == 2
    assert found in refused.stderr
    assert refused.stderr.rstrip().endswith(("keep one.", "remove one of them."))


def test_a_rate_in_small_letters_is_said_to_be_bytes() -> None:
    noted = ckpt_size("--model", "gpt2", "--write-bandwidth", "500 gb/s", "--read-bandwidth", "400 Gb/s")
    assert noted.stderr == "note: 500 gb/s is read as bytes: 500.0 GB/s. Write Gb/s for bits.\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ("--min-goodput", "90"),
            "--min-goodput must be less than 1, got '90': for 90 percent write 90% or 0.9.",
        ),
        (
            ("--max-overhead", "5"),
            "--max-overhead must be at most 1, got '5': for 5 percent write 5% or 0.05.",
        ),
        (("--max-overhead", "500"), "--max-overhead must be at most 1, got '500': give 1 or less."),
        (("--mtbf", "0"), "--mtbf must be at least 1 ms, got '0': give 1 ms or more."),
        (
            ("--write-bandwidth", "0 GB/s"),
            "--write-bandwidth must be at least 1 B/s, got '0 GB/s': give 1 B/s or more.",
        ),
        (("--interval", "40000d"), "--interval must be at most 100 years, got '40000d': give 100 years or less."),
        (
            ("--mtbf", "1h", "--failures-per-node-day", "0.1"),
            "reliability must have exactly one of --failures-per-node-day, reliability.failures_per_gpu_hour, --mtbf, "
            "reliability.components, --failures, found --failures-per-node-day and --mtbf: keep one.",
        ),
        (("--hf-config", "config.json"), "--hf-config config.json excludes --model: keep one."),
        (("--delta", "0.1"), "--delta-full-every is required: add it."),
        (("--publish", "delta"), "--publish-interval is required: add it."),
        (
            ("--optimizer-sharding", "fully-reshardable"),
            "--optimizer-sharding is how a distributed optimizer is saved, and --distributed-optimizer is not true, "
            "got 'fully-reshardable': set --distributed-optimizer, or remove it.",
        ),
        (
            ("--storage", "disk.json", "--storage-preset", "local-nvme"),
            "--storage disk.json excludes --storage-preset: keep one.",
        ),
    ],
)
def test_what_is_refused_is_said_with_its_unit_and_flags(arguments: tuple[str, ...], sentence: str) -> None:
    assert refusal("--model", "gpt2", *arguments) == sentence


def test_one_scenario_cannot_be_compared(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps({"model": {"preset": "gpt2"}}))
    assert refusal("compare", "one.json", cwd=tmp_path) == (
        "compare needs two scenarios or more, got 'one.json': give a second scenario, or a file with a list of `scenarios`."
    )


def test_staging_without_effect_is_said() -> None:
    arguments = ("--model", "gpt2", "--write-bandwidth", "1GB/s", "--staging", "8GiB")
    (warning,) = [text for text in report(*arguments)["warnings"] if "staging" in text]
    assert warning == "checkpoint.staging_bytes has no effect with mode sync. Remove it, or give mode async"
    assert not [text for text in report(*arguments, "--mode", "async")["warnings"] if "no effect" in text]


def test_names_of_figures_stay_on_a_line_however_narrow_the_output() -> None:
    narrow = typed(main, "ckpt-size", "--model", "gpt2", environment={"COLUMNS": "50"}).stdout
    assert max(map(len, narrow.splitlines())) <= 50
    assert "To buy: capacity " in narrow


@pytest.mark.parametrize(
    ("counts", "per_token", "num_routed"),
    [
        ("--parameters 46.7B --active 12.9B --experts 8", 2, 45.1e9),
        ("--parameters 109B --active 17B --experts 16", 1, 98e9),
    ],
)
def test_a_mixture_of_few_experts_is_told_by_counts(counts: str, per_token: int, num_routed: float) -> None:
    model = report(*counts.split(), "--experts-per-token", str(per_token))["model"]
    assert model["num_routed_expert_parameters"] == pytest.approx(num_routed, rel=0.01)


def test_a_model_named_by_its_count_says_it_once() -> None:
    shown = ckpt_size("--parameters", "447B", "--active", "32B", "--experts", "128").stdout
    assert shown.startswith("447,000,000,000 parameters, 32,000,000,000 active on ")


def test_defaults_that_follow_from_a_number_follow_from_a_typed_one() -> None:
    """500 steps of 2 s are 1,000 s; torchtitan counts embedding and loss as layers where there is a pipeline."""
    steps = report(*"--model gpt2 --framework fsdp2 --interval-steps 500 --step-time 2s".split())
    assert steps["interval"]["interval_seconds"] == 1_000
    stages = report(*"--model llama-3.1-405b --framework torchtitan --tensor 8 --pipeline 8 --data 8".split())
    assumed = {each["field"] for each in stages["assumptions"]}
    assert {"parallelism.embedding_counts_as_layer", "parallelism.loss_counts_as_layer"} <= assumed


def test_steps_of_unknown_time_are_asked_for() -> None:
    steps = report(*"--model gpt2 --framework fsdp2 --data 8 --interval-steps 500".split())
    assert any("How long 500 steps take is not known" in warning for warning in steps["warnings"])
    assert "did you mean --interval-steps" in refusal(*"--model gpt2 --save-steps 500".split())


@pytest.mark.parametrize(
    ("flags", "num_bytes"),
    [
        ("--framework megatron --data 8 --save-only-model yes", 2),
        ("--framework deepspeed --data 8 --save-only-model yes", 2),
        ("--framework fsdp2 --data 8 --save-only-model yes", 4),
        ("--framework fsdp2 --data 8 --ema fp32", 16),
    ],
)
def test_weights_alone_and_averages_have_flags(flags: str, num_bytes: int) -> None:
    """bf16 weights of Megatron-LM and DeepSpeed, fp32 ones of FSDP2; an average in fp32 beside weights and moments."""
    size = report("--model", "llama-3.1-8b", *flags.split())["checkpoint"]
    assert size["logical_bytes"] == pytest.approx(num_bytes * 8_030_261_248, rel=1e-6)


def test_frozen_tensors_of_a_bare_count_are_refused_with_what_names_them() -> None:
    sentence = refusal(*"--parameters 8B --framework fsdp2 --data 8 --frozen attention".split())
    assert "give --trained-parameters, or describe the model by --model" in sentence
    half = report(*"--model llama-3.1-8b --framework fsdp2 --data 8 --frozen attention,ffn".split())
    assert half["model"]["num_trained_parameters"] < 2e9


def test_of_a_bare_count_the_number_of_trained_parameters_is_enough() -> None:
    """A tenth of 8B is trained: fp32 weights of all, and two fp32 moments of the tenth, on whatever ranks."""
    words = "--parameters 8B --trained-parameters 800M --framework".split()
    for framework in ("fsdp2 --data 8", "fsdp2 --data 4 --format full", "torchtitan --data 4 --pipeline 2"):
        size = report(*words, *framework.split())
        assert size["model"]["num_trained_parameters"] == 800_000_000
        assert size["checkpoint"]["logical_bytes"] == 4 * 8_000_000_000 + 8 * 800_000_000
    mixed = report(*words, *"megatron --tensor 2 --pipeline 2 --data 2".split())["checkpoint"]
    assert mixed["logical_bytes"] == 2 * 8_000_000_000 + 12 * 800_000_000
    assert "at most --parameters 8000000000" in refusal(*"--parameters 8B --trained-parameters 9B".split())
    assert "experts, got 9000000: name tensors in --frozen" in refusal(*"--model gpt2 --trained-parameters 9M".split())


def test_files_per_rank_have_a_flag() -> None:
    """Megatron-Core up to 0.16 writes two files per rank, and common.pt, metadata.json and .metadata beside them."""
    files = report(*"--model llama-3.1-8b --framework megatron --tensor 2 --files-per-rank 2".split())
    assert files["checkpoint"]["num_files"] == 2 * 2 + 3


def test_degrees_that_the_number_of_gpus_leaves_open_are_no_second_problem() -> None:
    sentence = refusal(*"--model mixtral-8x7b --gpus 8 --expert 8 --micro-batch 64".split())
    assert sentence == "training has --micro-batch without --sequence-length: give --sequence-length too."


def test_adapters_of_a_bare_count_are_refused_with_what_counts_them() -> None:
    sentence = refusal(*"--parameters 14B --lora-rank 4".split())
    assert "or say by --trained-parameters alone how many are trained" in sentence
