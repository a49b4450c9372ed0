#!/usr/bin/env bash
# Predicts JOB in this tree and in the tree of BASE, writes the difference to $RUNNER_TEMP/plimsoll.md and the step summary, and sets the output fits.
set -euo pipefail
read -r -a job <<<"$JOB"
limits=()
[ -z "${MEMORY:-}" ] || limits+=("--memory=$MEMORY")
[ -z "${GPU:-}" ] || limits+=("--gpu=$GPU")

# predict FOLDER FILE: 0 it fits, 3 it does not, anything else: no prediction.
predict() { (cd "$1" && plimsoll predict --json "${limits[@]}" "${job[@]}") >"$2"; }

head=$RUNNER_TEMP/plimsoll-head.json base=$RUNNER_TEMP/plimsoll-base.json comment=$RUNNER_TEMP/plimsoll.md
code=0
predict . "$head" || code=$?
case $code in
  0) fits=true ;;
  3) fits=false ;;
  *) echo "::error title=Memory budget::plimsoll predict $JOB failed with exit code $code"; exit 1 ;;
esac
echo "fits=$fits" >>"$GITHUB_OUTPUT"

compared=
if [ -n "${BASE:-}" ]; then
  git cat-file -e "$BASE^{commit}" 2>/dev/null || git fetch --quiet --depth=1 origin "$BASE"
  tree=$RUNNER_TEMP/plimsoll-base
  git worktree add --quiet --force --detach "$tree" "$BASE"
  code=0
  predict "$tree" "$base" 2>"$RUNNER_TEMP/plimsoll-base.log" || code=$?
  git worktree remove --force "$tree"
  case $code in
    0 | 3) compared=$base ;;
    *) echo "::notice title=Memory budget::the job cannot be predicted on the base branch, so there is nothing to compare with" ;;
  esac
fi

{
  echo "### GPU memory"
  plimsoll diff --markdown "${compared:-$head}" "$head" || [ $? = 3 ]
} >"$comment"
cat "$comment" >>"$GITHUB_STEP_SUMMARY"
