"""Answers checks of values that do not exist.

A script that asserts something of a tensor's values, or raises an error where they are wrong, would end there on a made-up answer. On real data such checks pass, or
the script does not train at all: so the answer is the one that does not lead to the error, where the code right after the question tells which one that is.
"""
import dis
import functools
import os
import sys

HOME = os.path.dirname(os.path.abspath(__file__)) + os.sep
FAR = 60  # instructions that building an error takes at most


def passing():
    """True or False where the caller's branch on the other answer raises at once; None where neither branch does, or both."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(HOME):
        frame = frame.f_back
    return None if frame is None else _passing(frame.f_code, frame.f_lasti)


@functools.lru_cache(maxsize=4096)
def _passing(code, at):
    instructions = list(dis.get_instructions(code))
    places = {instruction.offset: i for i, instruction in enumerate(instructions)}
    i = places.get(at)
    if i is not None and instructions[i].opname == "TO_BOOL":  # Python 3.13 and later ask before they branch
        i += 1
    if i is None or i >= len(instructions) or not instructions[i].opname.startswith("POP_JUMP_") or not instructions[i].opname.endswith(("_IF_TRUE", "_IF_FALSE")):
        return None
    jumps_on = instructions[i].opname.endswith("_IF_TRUE")
    here, there = _raises(instructions, i + 1), _raises(instructions, places.get(instructions[i].argval))
    return None if here == there else jumps_on != there


def _raises(instructions, begin):
    if begin is None:
        return False
    for instruction in instructions[begin : begin + FAR]:
        if instruction.opname == "RAISE_VARARGS":
            return True
        if "JUMP" in instruction.opname or instruction.opname.startswith(("RETURN", "RERAISE", "FOR_ITER", "YIELD")):
            return False
    return False
