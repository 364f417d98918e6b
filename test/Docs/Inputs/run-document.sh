#!/usr/bin/env bash
# Runs the commands of a document and compares what they print with what it says.
#
#   run-document.sh FILE.md
#
# Commands are the lines of ```console blocks that start with "$ "; the lines
# behind one are its output. A line "…" stands for any lines, "…" inside a line for
# any text; the amount of white space does not count.
set -u
document=$1
command="" expected="" failures=0 commands=0

squeeze() { sed 's/[[:space:]]\+/ /g; s/^ //; s/ $//'; }

# The expected text as a pattern of bash: everything literal but the ellipsis.
pattern() { sed 's/[][\\*?(){}|!+@#&$"`<>;~^]/\\&/g; s/'"'"'/\\&/g; s/ /\\ /g; s/…/*/g'; }

finish() {
  [ -n "$command" ] || return 0
  commands=$((commands + 1))
  local output wanted
  output=$(bash -c "$command" 2>&1 | squeeze)
  wanted=$(printf '%s' "$expected" | squeeze)
  # shellcheck disable=SC2053
  if [[ $output != $(printf '%s' "$wanted" | pattern) ]]; then
    printf '%s\n$ %s\n== expected\n%s\n== found\n%s\n' \
      "$document: another output than the document's" "$command" "$wanted" \
      "$output"
    failures=$((failures + 1))
  fi
  command="" expected=""
}

inside=0
while IFS= read -r line; do
  case $line in
  '```console') inside=1 ;;
  '```') [ $inside = 1 ] && finish; inside=0 ;;
  '$ '*) if [ $inside = 1 ]; then finish; command=${line#'$ '}; fi ;;
  *) if [ $inside = 1 ]; then
      if [[ $command == *\\ ]]; then command="${command%\\} $line"
      else expected+="$line"$'\n'; fi
    fi ;;
  esac
done <"$document"
printf '%d commands, %d with another output\n' "$commands" "$failures"
[ "$commands" -gt 0 ] && [ "$failures" = 0 ]
