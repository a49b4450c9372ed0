#!/usr/bin/env bash
# Prints a Python 3.14 for the tests of the wheel: a build of python-build-standalone that a Go module carries, from the module proxy, laid out once.
set -euo pipefail
version=v0.0.0-3.14.6-20260610-1
home=${XDG_CACHE_HOME:-$HOME/.cache}/plimsoll/$version
if [ ! -x "$home/bin/python3.14" ]; then
	module=$(cd "$(mktemp -d)" && go mod download -json "github.com/kluctl/go-embed-python@$version" | sed -n 's/.*"Zip": "\(.*\)".*/\1/p')
	python3 - "$module" "$home" <<'P'
import gzip, json, os, shutil, sys, tempfile, zipfile
archive, home = sys.argv[1:]
os.makedirs(os.path.dirname(home), exist_ok=True)
new = tempfile.mkdtemp(dir=os.path.dirname(home))
with zipfile.ZipFile(archive) as z:
    inside = next(n for n in z.namelist() if n.endswith("linux-amd64/files.json"))[: -len("files.json")]
    for f in json.loads(z.read(inside + "files.json"))["files"]:
        path = os.path.join(new, f["name"])
        if f.get("symlink"):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.symlink(f["symlink"], path)
        elif f["perm"] >> 31:  # Go's bit of a folder
            os.makedirs(path, exist_ok=True)
        else:
            data = gzip.decompress(z.read(inside + f["name"] + ".gz")) if f.get("compressed") else z.read(inside + f["name"])
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as out:
                out.write(data)
            os.chmod(path, f["perm"] & 0o777)
os.rename(new, home)
P
fi
echo "$home/bin/python3.14"
