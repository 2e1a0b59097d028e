#!/usr/bin/env bash
# Models of providers, through LiteLLM, without training: LiveCodeBench, the development tasks and the same with
# perturbed public tests from the same first programs; then the turns that accepted a wrong test, and the judge on them.
#
#   LLMS      the models, as LiteLLM knows them (default gpt-5-mini-2025-08-07, that of the released scripts; which
#             ones the paper has is not known here; bedrock/... is Claude on AWS)
#   JUDGE     sorts the turns, if its key is there (default gpt-4.1-2025-04-14)
#   MAX_COST  US dollars at most, for each model and file that is sampled
#   BASE_URL  an OpenAI-compatible address to ask instead of the provider's
# Keys come from the environment (OPENAI_API_KEY, AWS_PROFILE, ...), and are looked for before anything is done.
# SMOKE=1 asks BASE_URL, or without it the tiny model in this process. MODELS: the configuration that names the tasks.
#
# Configuration: configs/qwen3-8b.yaml
# Expected:      no GPU hours; 93,200 completions of each model, and what they cost
# Published:     not given in the abstract
. "$(dirname "${BASH_SOURCE[0]}")/common.inc.sh"
config=${MODELS:-qwen3-8b} of=$OUT/${MODELS:-qwen3-8b}/cobalt set=livecodebench
how=(--evaluator auto --seed "$SEED" ${MAX_COST:+--max_cost "$MAX_COST"} ${BASE_URL:+--base_url "$BASE_URL"})
single=() multi=() LLMS=${LLMS:-gpt-5-mini-2025-08-07} JUDGE=${JUDGE-gpt-4.1-2025-04-14}
if [ "$SMOKE" = 1 ]; then
  set=heldout single=(-n 2) multi=(--turns 3) JUDGE=
  how+=(--evaluator local --max_tokens 64 --prompts tiny)
  [ -n "${BASE_URL:-}" ] || { LLMS=tiny-reference && how+=(--engine transformers --model_name models/tiny-reference); }
fi

# ask DOOR MODEL ...: one of the two LiteLLM runners.
ask() { "$python" "run_$1_turn_litellm.py" --model_name "$2" "${how[@]}" "${@:3}"; }

# can_ask MODEL: whether its provider would be asked; says what is missing if not.
can_ask() { ask single "$1" -i examples/released/tasks/validation.jsonl -o "$OUT/none" --limit 1 --dry_run >/dev/null; }

# repaired MODEL NAME [--flag ...]: dialogues from the first programs $folder/NAME_first.jsonl, and their hidden tests.
repaired() {
  ask multi "$1" -i "$folder/$2_first.jsonl" -o "$folder/$2.jsonl" ${multi[@]+"${multi[@]}"} "${@:3}"
  "$python" eval_multi_turn.py -i "$folder/$2.jsonl" -o "$folder/$2_eval.jsonl" --seed "$SEED"
}

if [ "$PLAN" = 0 ]; then
  for llm in $LLMS; do can_ask "$llm" || exit; done
  [ -z "$JUDGE" ] || can_ask "$JUDGE" || { echo "no judge: $JUDGE cannot be asked, see above"; JUDGE=; }
fi
UNTIL=data run "$config" cobalt
livecodebench=() taco_dev=() perturbed=()
for llm in $LLMS; do
  [ "$PLAN" = 0 ] || break
  label=${llm//[\/:=]/_} && folder=$OUT/proprietary/$label
  mkdir -p "$folder"
  for name in livecodebench taco_dev; do
    tasks=$of/tasks/$([ $name = taco_dev ] && echo dev || echo $set).jsonl
    ask single "$llm" -i "$tasks" -o "$folder/${name}_first.jsonl" ${single[@]+"${single[@]}"}
    repaired "$llm" $name
  done
  "$python" preproc/run_perturbation.py -i "$folder/taco_dev_first.jsonl" -o "$folder/perturbed_first.jsonl"
  repaired "$llm" perturbed --tests perturbed
  "$python" extract_turn_level_errors.py -d "$folder/perturbed_first.jsonl" -i "$folder/perturbed_eval.jsonl" \
    -o "$folder/perturbed_errors.jsonl"
  livecodebench+=("$label=$folder/livecodebench_eval.jsonl") taco_dev+=("$label=$folder/taco_dev_eval.jsonl")
  perturbed+=("$label=$folder/perturbed_eval.jsonl" "$folder/perturbed_errors.jsonl")
  if [ -n "$JUDGE" ] && [ -s "$folder/perturbed_errors.jsonl" ]; then
    "$python" run_llm_judge.py --model_name "$JUDGE" -i "$folder/perturbed_errors.jsonl" \
      -o "$folder/perturbed_judged.jsonl" --seed "$SEED"
    perturbed+=("$folder/perturbed_judged.jsonl")
  fi
done
tables livecodebench_proprietary ${livecodebench[@]+"${livecodebench[@]}"}
tables taco_dev_proprietary ${taco_dev[@]+"${taco_dev[@]}"}
tables perturbed_proprietary ${perturbed[@]+"${perturbed[@]}"}
finish
