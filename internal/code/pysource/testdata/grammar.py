# Every kind of statement and expression, once or twice.
from __future__ import annotations
import os.path as osp, sys
from . import sibling
from ..package.module import (first, second as other,)
from everything import *

x = y = 1, *[2, 3]
a: int
b: dict[str, int] = {**{}, "k": 1}
c += -x ** 2 @ (not y) if x < 1 <= 2 else lambda p, *q, r=1, **s: p or q and r
d = [i for i in range(10) if i % 2 if i > 3 for j in (1, 2)]
e = {k: v for k, v in b.items()} | {z async for z in agen()} and {1, 2}
g = (n := 10) + (yield) if True else None
h = x[1:2, ::3, ...], x[:], x[a:b:c], x[*a]
print(*d, sep="", **e, end='''three
lines''' r"\d", bz=b'z' b'y', gen=(i for i in d))
print(f"{x!r:>{width}} {{no}} {d['k']} {x = } {x != y} {'a' if x else 'b'} {(lambda: 1)()}" rf'{x:%H:%M}')
del x, (y, z)
assert x not in y is not z, "message"
global_name = 0x_FF + 1_000.5e-3j + .5 + 1. + 0b1
if x: pass
elif y: x = 1; y = 2;
else:
    ...
while (chunk := read()) is not None:
    continue
else:
    pass
for i, (j, *rest) in enumerate(zip(a, b)), *c:
    break
for x[i in y], z.w in q: pass
with open(a) as f, open(b): pass
with (open(a) as f, open(b) as (g, h),): pass
with (a, b): pass
with (a): pass
with (yield x): pass
try:
    raise ValueError from None
except (A, B) as err:
    raise
except D:
    pass
else: pass
finally:
    nonlocal_ = 1


@decorator(x)[0].y
async def f(a, b: int = 1, /, c=2, *args: int, d, e: str = "x", **kw) -> Annotated[int, ...]:
    global one, two
    nonlocal three
    async with a as b: await c
    async for x in y: yield x
    return await z.w(), *x


def g(*, only): return


class C(Base, metaclass=M, **kw):
    """doc"""
    def method(self): yield from self.x; yield

    x: int = 1


match command.split():
    case [first, *rest] if first: pass
    case {"k": v, **rest} | C(x=1, y=[_, "a" "b"]) as name: pass
    case -1 | None | a.b: pass
    case _: pass
match = 1; match[0] = case; match(x)
type = 3
type(x)
print(x if y else z, \
      1if x else 2)
	# a comment with odd indentation
if True:
	tab = 1
	if tab:
	        mixed = 2
lambda: (yield)
x = not -y, ~z, *w
λ = "ünïcode"
try: pass
except* C: pass
