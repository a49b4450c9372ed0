"""Stands in for deepspeed: whoever follows a script takes the place of initialize."""


def initialize(*args, **kwargs):
    raise RuntimeError("this is not deepspeed")
