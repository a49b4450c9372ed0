"""Packs a binary and the Python package into a wheel (PEP 427): wheel.py VERSION GOOS/GOARCH BINARY PACKAGE OUT. Same input, same bytes."""
import base64
import hashlib
import os
import sys
import zipfile

# A static Go binary runs on any Linux of the last decade, glibc or musl; macOS 12 is what Go 1.26 needs.
TAGS = {
    "linux/amd64": "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64",
    "linux/arm64": "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
    "darwin/amd64": "macosx_12_0_x86_64",
    "darwin/arm64": "macosx_12_0_arm64",
}
METADATA = """Metadata-Version: 2.1
Name: plimsoll
Version: {version}
Summary: Whether a PyTorch job fits on a GPU, why it ran out of memory, how to make it fit
Requires-Python: >=3.8
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: plimsoll\nRoot-Is-Purelib: false\n{tags}"


def main(version, platform, binary, package, out):
    tag = f"py3-none-{TAGS[platform]}"
    info = f"plimsoll-{version}.dist-info"
    with open(binary, "rb") as f:
        files = [(f"plimsoll-{version}.data/scripts/plimsoll", f.read(), 0o755)]
    for name in sorted(os.listdir(package)):
        if name.endswith(".py"):
            with open(os.path.join(package, name), "rb") as f:
                files.append((f"plimsoll/{name}", f.read(), 0o644))
    tags = "".join(f"Tag: py3-none-{t}\n" for t in TAGS[platform].split("."))
    files.append((f"{info}/METADATA", METADATA.format(version=version).encode(), 0o644))
    files.append((f"{info}/WHEEL", WHEEL.format(tags=tags).encode(), 0o644))
    record = "".join(f"{name},sha256={digest(data)},{len(data)}\n" for name, data, _ in files) + f"{info}/RECORD,,\n"
    files.append((f"{info}/RECORD", record.encode(), 0o644))
    path = os.path.join(out, f"plimsoll-{version}-{tag}.whl")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data, mode in files:
            entry = zipfile.ZipInfo(name)
            entry.external_attr, entry.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    print(path)


def digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


main(*sys.argv[1:])
