#!/usr/bin/env bash
# Puts $RUNNER_TEMP/plimsoll.md on the pull request NUMBER of REPOSITORY: in the comment that is there already, or in a new one. A token without the right to do so
# (a pull request from a fork) is not a failure: the step summary has the same text.
set -euo pipefail
mark="<!-- plimsoll -->"
text=$RUNNER_TEMP/plimsoll.md
[ -s "$text" ] || exit 0
body=$RUNNER_TEMP/plimsoll-comment.md
{ echo "$mark"; cat "$text"; } >"$body"
comments="repos/$REPOSITORY/issues/$NUMBER/comments"
{
  id=$(gh api "$comments" --paginate --jq ".[] | select(.body | startswith(\"$mark\")) | .id" | head -n 1)
  if [ -n "$id" ]; then
    gh api --silent --method PATCH "repos/$REPOSITORY/issues/comments/$id" -F "body=@$body"
  else
    gh api --silent "$comments" -F "body=@$body"
  fi
} || echo "::warning title=Memory budget::the pull request could not be commented on; the summary of this run has the text"
