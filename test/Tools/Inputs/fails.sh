#!/bin/sh
# fails.sh TEXT COMMAND...
#
# Runs a command that has to fail as the tools do: with exit code 1, in time,
# with one error message, which holds TEXT, and with nothing left behind in
# the working directory. Prints what the command said.
text=$1
shift
list() { find . ! -type d -printf '%p %y %s\n' -o -printf '%p\n' | sort; }
wrong() {
  echo "$*"
  exit 1
}

before=$(list)
said=$(timeout 300 "$@" 2>&1 </dev/null)
code=$?
printf '%s\n' "$said"
[ $code -eq 1 ] || wrong "expected exit code 1, found $code"
# What LLVM says about a command line has no such word.
errors=$(printf '%s\n' "$said" | grep -E 'error: |Unknown command line')
[ "$(printf '%s\n' "$errors" | wc -l)" -eq 1 ] ||
  wrong "expected one error message, found more"
printf '%s\n' "$errors" | grep -qF -e "$text" ||
  wrong "expected a message with '$text', found another"
[ "$(list)" = "$before" ] || wrong "expected nothing left behind, found $(list)"
