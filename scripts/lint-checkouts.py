#!/usr/bin/env python3
"""Lays out the Python files of the commits that a list of known bugs names: lint-checkouts.py LIST MIRRORS TARGET."""

import json
import os
import subprocess
import sys


def git(folder, *args):
    return subprocess.run(["git", "--git-dir", folder, *args], capture_output=True, check=False)


def main(listed, mirrors, target):
    for line in open(listed, encoding="utf-8"):
        case = json.loads(line)
        out = os.path.join(target, case["id"])
        folder = os.path.join(mirrors, case["repository"].replace("/", "+"), "repo")
        folder = os.path.join(folder, ".git") if os.path.isdir(os.path.join(folder, ".git")) else folder
        if os.path.exists(out) or not os.path.isdir(folder):
            continue
        commit = git(folder, "rev-parse", "--verify", "-q", case["commit"] + "^{commit}").stdout.decode().strip()
        names = git(folder, "ls-tree", "-r", "--name-only", "-z", commit).stdout.decode().split("\0")
        for name in names:
            if not name.endswith(".py") and name != case["path"]:
                continue
            text = git(folder, "show", f"{commit}:{name}")
            if text.returncode == 0:
                path = os.path.join(out, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as f:
                    f.write(text.stdout)


main(*sys.argv[1:])
