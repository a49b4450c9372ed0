"""`python -m plimsoll` is the command plimsoll."""
import os
import subprocess
import sys

from ._binary import find


def main():
    try:
        binary = find()
    except FileNotFoundError as problem:
        sys.exit(f"plimsoll: {problem}")
    if os.name == "nt":  # there is no exec that keeps the console
        sys.exit(subprocess.call([binary, *sys.argv[1:]]))
    os.execv(binary, [binary, *sys.argv[1:]])


if __name__ == "__main__":
    main()
