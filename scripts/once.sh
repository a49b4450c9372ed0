# Sourced by the scripts that make a Python environment of the tests.
#
# once NAME REQUIREMENTS PYTHON MAKE puts the folder for this list of requirements and this Python, in the cache outside the clone, into $made.
# The function MAKE fills it the first time. One process at a time; the lock is held until the script ends.
once() {
  local key
  key=$({ cat "$2"; "$3" -c 'import sys; print(sys.version)'; } | sha256sum | cut -c1-16)
  made=${XDG_CACHE_HOME:-$HOME/.cache}/plimsoll/$1-$key
  mkdir -p "$(dirname "$made")"
  exec 9>"$made.lock"
  flock 9
  [ ! -e "$made/complete" ] || return 0
  echo "installing $2 into $made" >&2
  rm -rf "$made"
  "$4" >&2
  touch "$made/complete"
}
