"""Writes CPython's syntax tree of each file named, in the form of dump_test.go.

The .tree files beside the .py files here were written with it: python3 dump.py FILE > FILE.tree
"""
import ast
import sys

BINARY = {"Add": "+", "Sub": "-", "Mult": "*", "Div": "/", "FloorDiv": "//", "Mod": "%", "MatMult": "@", "Pow": "**",
          "BitOr": "|", "BitAnd": "&", "BitXor": "^", "LShift": "<<", "RShift": ">>"}
UNARY = {"USub": "-", "UAdd": "+", "Invert": "~", "Not": "not"}
COMPARE = {"Lt": "<", "Gt": ">", "Eq": "==", "GtE": ">=", "LtE": "<=", "NotEq": "!=", "In": "in", "NotIn": "not in",
           "Is": "is", "IsNot": "is not"}
out = []


def line(depth, *parts):
    out.append(" " * depth + " ".join(parts))


def exs(xs):
    return "[" + " ".join(ex(x) for x in xs) + "]"


def args(a, keywords):
    parts = ["*" + ex(x.value) if isinstance(x, ast.Starred) else ex(x) for x in a]
    parts += [(k.arg + "=" if k.arg else "**") + ex(k.value) for k in keywords]
    return "(" + " ".join(parts) + ")"


def params(a):
    plain = a.posonlyargs + a.args
    defaults = [None] * (len(plain) - len(a.defaults)) + a.defaults
    parts = [(0, p, d) for p, d in zip(plain, defaults)]
    if a.vararg:
        parts.append((1, a.vararg, None))
    parts += [(0, p, d) for p, d in zip(a.kwonlyargs, a.kw_defaults)]
    if a.kwarg:
        parts.append((2, a.kwarg, None))
    return "(" + " ".join(f"{'*' * s}{p.arg}:{ex(p.annotation)}={ex(d)}" for s, p, d in parts) + ")"


def fields(x):
    found = []
    for v in x.values:
        if isinstance(v, ast.FormattedValue):
            found.append(ex(v.value))
            if v.format_spec:
                found += fields(v.format_spec)
    return found


def ex(x):
    if x is None:
        return "-"
    k = type(x).__name__
    if k == "Name":
        return x.id
    if k == "Constant":
        if x.value is None or x.value is True or x.value is False:
            return str(x.value)
        if x.value is ...:
            return "..."
        return "str" if isinstance(x.value, (str, bytes)) else "num"
    if k == "JoinedStr":
        return "f[" + " ".join(fields(x)) + "]"
    if k == "Attribute":
        return f"(. {ex(x.value)} {x.attr})"
    if k == "Call":
        return f"(call {ex(x.func)} {args(x.args, x.keywords)})"
    if k == "Subscript":
        return f"(at {ex(x.value)} {ex(x.slice)})"
    if k == "Slice":
        return f"(slice {ex(x.lower)} {ex(x.upper)} {ex(x.step)})"
    if k == "BinOp":
        return f"({BINARY[type(x.op).__name__]} {ex(x.left)} {ex(x.right)})"
    if k == "UnaryOp":
        return f"({UNARY[type(x.op).__name__]} {ex(x.operand)})"
    if k == "BoolOp":
        return f"({type(x.op).__name__.lower()} {exs(x.values)})"
    if k == "Compare":
        return "(cmp " + ",".join(COMPARE[type(o).__name__] for o in x.ops) + " " + exs([x.left] + x.comparators) + ")"
    if k == "IfExp":
        return f"(if {ex(x.test)} {ex(x.body)} {ex(x.orelse)})"
    if k == "Lambda":
        return f"(lambda {params(x.args)} {ex(x.body)})"
    if k in ("Tuple", "List", "Set"):
        return f"({k.lower()} {exs(x.elts)})"
    if k == "Dict":
        return f"(dict {exs(x.keys)} {exs(x.values)})"
    if k in ("ListComp", "SetComp", "GeneratorExp", "DictComp"):
        mark = {"ListComp": "[", "SetComp": "{", "GeneratorExp": "(", "DictComp": ":"}[k]
        key, value = (x.key, x.value) if k == "DictComp" else (None, x.elt)
        clauses = "".join(f" {ex(c.target)} {ex(c.iter)} {exs(c.ifs)}" for c in x.generators)
        return f"(comp {mark} {ex(key)} {ex(value)}{clauses})"
    if k == "Await":
        return f"(await {ex(x.value)})"
    if k == "Yield":
        return f"(yield {ex(x.value)})"
    if k == "YieldFrom":
        return f"(yieldfrom {ex(x.value)})"
    if k == "NamedExpr":
        return f"(:= {ex(x.target)} {ex(x.value)})"
    if k == "Starred":
        return "*" + ex(x.value)
    raise ValueError(k)


def body(stmts, n):
    for s in stmts:
        stmt(s, n)


def section(name, stmts, n):
    if stmts:
        line(n, name)
        body(stmts, n + 1)


def stmt(s, n):
    k = type(s).__name__
    if k == "Expr":
        line(n, "expr", ex(s.value))
    elif k == "AugAssign":
        line(n, "aug", ex(s.target), BINARY[type(s.op).__name__] + "=", ex(s.value))
    elif k == "AnnAssign":
        line(n, "ann", ex(s.target), ex(s.annotation), ex(s.value))
    elif k == "Assign":
        line(n, "assign", exs(s.targets), ex(s.value))
    elif k == "Return":
        line(n, "return", ex(s.value))
    elif k == "Raise":
        line(n, "raise", ex(s.exc), ex(s.cause))
    elif k == "Assert":
        line(n, "assert", ex(s.test), ex(s.msg))
    elif k == "Delete":
        targets = s.targets[0].elts if len(s.targets) == 1 and isinstance(s.targets[0], ast.Tuple) else s.targets
        line(n, "del", exs(targets))
    elif k in ("Pass", "Break", "Continue"):
        line(n, k.lower(), "")
    elif k in ("Global", "Nonlocal"):
        line(n, k.lower(), ",".join(s.names))
    elif k == "Import":
        line(n, "import", ",".join(f"{a.name}:{a.asname or ''}" for a in s.names))
    elif k == "ImportFrom":
        line(n, "from", "." * s.level + (s.module or ""), ",".join(f"{a.name}:{a.asname or ''}" for a in s.names))
    elif k == "TypeAlias":
        line(n, "type", s.name.id, ex(s.value))
    elif k == "If":
        line(n, "if", ex(s.test))
        body(s.body, n + 1)
        if len(s.orelse) == 1 and isinstance(s.orelse[0], ast.If) and s.orelse[0].col_offset == s.col_offset:
            stmt(s.orelse[0], n)
        else:
            section("else", s.orelse, n)
    elif k == "While":
        line(n, "while", ex(s.test))
        body(s.body, n + 1)
        section("else", s.orelse, n)
    elif k in ("For", "AsyncFor"):
        line(n, "for", ex(s.target), ex(s.iter))
        body(s.body, n + 1)
        section("else", s.orelse, n)
    elif k in ("With", "AsyncWith"):
        line(n, "with", " ".join(ex(i.context_expr) + ":" + ex(i.optional_vars) for i in s.items))
        body(s.body, n + 1)
    elif k in ("Try", "TryStar"):
        line(n, "try")
        body(s.body, n + 1)
        for h in s.handlers:
            line(n, "except", ex(h.type), h.name or "")
            body(h.body, n + 1)
        section("else", s.orelse, n)
        section("finally", s.finalbody, n)
    elif k == "Match":
        line(n, "match", ex(s.subject))
        for c in s.cases:
            line(n, "case", ex(c.guard))
            body(c.body, n + 1)
    elif k in ("FunctionDef", "AsyncFunctionDef"):
        line(n, "def", s.name, exs(s.decorator_list), params(s.args), ex(s.returns))
        body(s.body, n + 1)
    elif k == "ClassDef":
        line(n, "class", s.name, exs(s.decorator_list), args(s.bases, s.keywords))
        body(s.body, n + 1)
    else:
        raise ValueError(k)


if __name__ == "__main__":
    for path in sys.argv[1:]:
        out.clear()
        with open(path, "rb") as f:
            body(ast.parse(f.read()).body, 0)
        sys.stdout.write("".join(x + "\n" for x in out))
