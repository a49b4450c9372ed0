#!/usr/bin/env bash
# Builds the release of this machine twice, compares the bytes, and installs it as the README says: with pip into a fresh environment of every Python from
# 3.9 on that is found here, with uvx, pre-commit, go install and the Homebrew formula. Without wine, uv, pre-commit, ruby or root the part that needs them is left
# out, and said.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0 tried=
ok() { passed=$((passed + 1)); echo "ok       $*"; }
# check WHAT CMD...: the command ends well.
check() {
  local what=$1
  shift
  if "$@"; then ok "$what"; else failed=$((failed + 1)); echo "FAILED   $what"; fi
}
skip() { skipped=$((skipped + 1)); echo "skipped  $*"; }
message="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB of which 1.00 GiB is free."
# works CMD...: the command knows its version and explains a message (exit code 3: a finding).
works() {
  local version code=0 answer
  version=$("$@" version)
  grep -q '^commit    [0-9a-f]\{40\}' <<<"$version" || return 1
  answer=$(echo "$message" | "$@" explain -) || code=$?
  [ "$code" = 3 ] && grep -q '2.00 GiB' <<<"$answer"
}

arch=$(go env GOARCH)
scripts/release.sh -dirty -out "$work/dist" -only "linux/$arch,linux/$arch/musl" >/dev/null
scripts/release.sh -dirty -out "$work/again" -only "linux/$arch,linux/$arch/musl" >/dev/null
check "two releases of one commit are the same bytes" diff -r "$work/dist" "$work/again"
check "checksums" env -C "$work/dist" sha256sum --quiet -c SHA256SUMS
version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)

# installed ENV: the command, the module, the callable and the pages are there and work.
installed() {
  works "$1/bin/plimsoll" && works "$1/bin/python" -m plimsoll && "$1/bin/python" -c 'import plimsoll; plimsoll.mark("x")' &&
    [ -e "$1/share/man/man1/plimsoll-explain.1" ] && [ -e "$1/share/bash-completion/completions/plimsoll" ]
}

links=${PIP_FIND_LINKS:-}
export PIP_NO_INDEX=1 PIP_FIND_LINKS=$work/dist PIP_DISABLE_PIP_VERSION_CHECK=1
for python in $(ls -d ~/.pyenv/versions/3.*/bin/python /usr/bin/python3.?? /usr/bin/python3.? 2>/dev/null) $(scripts/python-3.14.sh || true) ${PYTHONS:-}; do
  "$python" -c 'import sys, venv; sys.exit(sys.version_info < (3, 9))' 2>/dev/null || continue
  name=$("$python" -c 'import platform; print(platform.python_version())')
  env=$work/env-$name
  [ -e "$env" ] && continue
  if "$python" -c 'import ensurepip' 2>/dev/null; then
    "$python" -m venv "$env"
    "$env/bin/pip" install --quiet plimsoll-gpu
  else # a build without it: with the pip of another
    "$python" -m venv --without-pip "$env"
    "$(ls "$work"/env-3.1[0-3]*/bin/pip | tail -1)" --python "$env/bin/python" install --quiet plimsoll-gpu
  fi
  size=$(du -sk "$env"/lib/python*/site-packages/plimsoll* "$env/bin/plimsoll" "$env/share" | awk '{ s += $1 } END { print s }')
  check "pip install plimsoll-gpu, Python $name ($size kB on disk)" installed "$env"
  tried="$tried ${name%.*}"
  [ ! -e "$env/bin/pip" ] || python_for_tools=$python # one that can make environments
done
for minor in 9 10 11 12 13 14; do
  case " $tried " in *" 3.$minor "*) ;; *) skip "Python 3.$minor: there is none here" ;; esac
done
wheel=$(stat -c %s "$work"/dist/plimsoll_gpu-*manylinux*.whl)
check "what pip downloads is $wheel bytes, at most 12 MB" [ "$wheel" -le 12000000 ]

if command -v uvx >/dev/null; then
  export UV_OFFLINE=1 UV_FIND_LINKS=$work/dist UV_CACHE_DIR=$work/uv
  check "uvx --from plimsoll-gpu plimsoll" works uvx --from plimsoll-gpu plimsoll
else
  skip "uvx: there is no uv"
fi

# hooked FOLDER: pre-commit installs the hook of this commit with the wheel, and reports what lint reports.
hooked() {
  git clone -q --no-local . "$1/hooks" && git init -q "$1/project" || return 1
  printf 'repos:\n  - repo: %s\n    rev: %s\n    hooks: [{id: plimsoll-lint}]\n' "$1/hooks" "$(git rev-parse HEAD)" >"$1/project/.pre-commit-config.yaml"
  printf '%s\n' 'import torch' 'model = torch.nn.Linear(8, 1).cuda()' 'losses = []' 'for x, y in loader:' \
    '    loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())' '    losses.append(loss)' >"$1/project/train.py"
  (
    cd "$1/project" && git add -A
    code=0
    answer=$(PRE_COMMIT_HOME=$1/home "$1/env/bin/pre-commit" run --all-files) || code=$?
    echo "$answer" | grep -q 'train.py:6.* LM001' && [ "$code" = 1 ] || { echo "$answer"; exit 1; }
    sed -i 's/append(loss)/append(loss.item())/' train.py
    PRE_COMMIT_HOME=$1/home "$1/env/bin/pre-commit" run --all-files >/dev/null
  )
}
mkdir "$work/hook" "$work/wheels"
"$python_for_tools" -m venv "$work/hook/env"
if env -u PIP_NO_INDEX PIP_FIND_LINKS="$links" "$work/hook/env/bin/pip" install --quiet pre-commit 2>/dev/null &&
  env -u PIP_NO_INDEX PIP_FIND_LINKS="$links" "$work/hook/env/bin/pip" download --quiet --no-deps -d "$work/wheels" setuptools; then
  PIP_FIND_LINKS="$work/dist $work/wheels" check "pre-commit installs the hook with the wheel and runs it" hooked "$work/hook"
else
  skip "pre-commit: it cannot be installed here"
fi

GOBIN=$work/gobin go install ./cmd/plimsoll
check "go install ./cmd/plimsoll" works "$work/gobin/plimsoll"

if [ "$(id -u)" = 0 ]; then
  python3 -m pip download --quiet --no-deps --only-binary=:all: --platform "musllinux_1_1_$(uname -m)" -d "$work/musl" plimsoll-gpu
  (cd "$work/musl" && python3 -m zipfile -e ./*.whl . && mkdir root root/tmp && cp plimsoll_gpu-*.data/scripts/plimsoll root/ && chmod +x root/plimsoll)
  check "the musl wheel's binary, in a root without any library" works chroot "$work/musl/root" /plimsoll
else
  skip "the musl wheel in a root of its own: not root"
fi

if command -v ruby >/dev/null; then
  ruby scripts/formula.rb "$work/dist"
  check "the Homebrew formula installs the archive" works "$work/dist/brewed/bin/plimsoll"
else
  skip "the Homebrew formula: there is no ruby"
fi

GOOS=windows GOARCH=amd64 CGO_ENABLED=0 go build -trimpath -o "$work/plimsoll.exe" ./cmd/plimsoll
ok "the Windows binary compiles"
wine=$(command -v wine64 || ls /usr/lib/wine/wine64 2>/dev/null || true)
if [ -n "$wine" ]; then
  code=0
  scripts/test-windows.sh "$wine" "$work/plimsoll.exe" || code=$?
  if [ "$code" = 77 ]; then skip "running the Windows binary"; else check "the Windows binary reads files as this one does" [ "$code" = 0 ]; fi
else
  skip "running the Windows binary: there is no wine"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
