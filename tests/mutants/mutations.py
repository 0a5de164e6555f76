"""Mutations: every small change that could be made to a module, with its place and the changed source.

Cosmic Ray makes the changes. Only those of its operators are used that change what a program does and not only how it
is written. Changes that nobody could notice are left out: in annotations, in code for type checkers, in the memory
layout of structs, and by one in numbers that are only amounts: a limit of 65,536 bytes is as good as one of 65,537. So
are changes that every import would notice: what does not compile, and unions of types.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeGuard

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

__all__ = ["Mutation", "changed_lines", "inside_functions", "is_change", "mutated", "mutations"]

OPERATORS = (
    *(f"ReplaceComparisonOperator_{pair}" for pair in ("Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is")),
    *(f"ReplaceComparisonOperator_{pair}" for pair in ("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt")),
    *(f"ReplaceComparisonOperator_{pair}" for pair in ("Lt_GtE", "LtE_Gt", "Gt_LtE", "GtE_Lt")),
    *(f"ReplaceBinaryOperator_{pair}" for pair in ("Add_Sub", "Sub_Add", "Mul_FloorDiv", "FloorDiv_Mul")),
    *(f"ReplaceBinaryOperator_{pair}" for pair in ("BitOr_BitAnd", "BitAnd_BitOr")),
    "ReplaceUnaryOperator_Delete_Not",
    "ReplaceUnaryOperator_Delete_USub",
    "AddNot",
    "ReplaceTrueWithFalse",
    "ReplaceFalseWithTrue",
    "ReplaceAndWithOr",
    "ReplaceOrWithAnd",
    "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak",
    "ExceptionReplacer",
    "NumberReplacer",
    "ZeroIterationForLoop",
)

ANY = "any operator"
LAYOUT = frozenset({"eq", "frozen", "gc", "kw_only", "order", "slots", "strict", "weakref"})
"""Arguments of structs and dataclasses that set their layout; and `strict` of `zip`, which is an assertion."""
AMOUNT = 10
"""Numbers from this one on are amounts if they are constants of a module or a class, or defaults."""
_RAISED_BY_NOBODY = re.compile(r"\w*CosmicRayTestingException\w*")
"""Matches the exception that Cosmic Ray puts in, which modules do not import."""


class Mutation(NamedTuple):
    path: str
    """Path of the module, from the root of the repository."""
    operator: str
    occurrence: int
    """Index among the places in the module that the operator can change."""
    line: int


def mutations(root: Path, path: str) -> list[Mutation]:
    """Return all mutations of a module."""
    source = (root / path).read_text()
    left_out = {place for node, operators in _left_out(ast.parse(source)) for place in _places(node, operators)}
    nodes = list(ast_nodes(get_ast(source)))
    found: list[Mutation] = []
    for name in OPERATORS:
        operator = get_operator(f"core/{name}")()
        places = (start for node in nodes for start, _ in operator.mutation_positions(node))
        for occurrence, (line, column) in enumerate(places):
            if not any((line, column, one) in left_out for one in (name, ANY)):
                found.append(Mutation(path, name, occurrence, line))
    return found


def is_change(root: Path, mutation: Mutation) -> bool:
    """Whether the mutation gives a different program that compiles."""
    source = (root / mutation.path).read_text()
    try:
        return ast.dump(ast.parse(mutated(source, mutation))) != ast.dump(ast.parse(source))
    except (SyntaxError, AttributeError):  # the latter from Cosmic Ray, where a tuple of exceptions has a dotted name
        return False


def mutated(source: str, mutation: Mutation) -> str:
    """Return the source of the module with the change."""
    changed = mutate_code(source, get_operator(f"core/{mutation.operator}")(), mutation.occurrence)
    assert isinstance(changed, str), mutation
    return _RAISED_BY_NOBODY.sub("TabError", changed)


def changed_lines(source: str, changed: str) -> str:
    """Return the lines that a change removes and adds, without context."""
    lines = difflib.unified_diff(source.splitlines(), changed.splitlines(), lineterm="", n=0)
    return "\n".join(line for line in lines if line[:1] in "-+" and line[:3] not in ("---", "+++"))


def inside_functions(source: str) -> set[int]:
    """Return the lines that run when a function is called; the others run when the module is imported."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    parts = [part for node in ast.walk(ast.parse(source)) if isinstance(node, functions) for part in node.body]
    return {line for part in parts for line in range(part.lineno, (part.end_lineno or part.lineno) + 1)}


def _left_out(tree: ast.Module) -> Iterator[tuple[ast.expr, str]]:
    """Yield expressions, and the operator that is not applied to them."""
    for node in ast.walk(tree):
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if isinstance(part, ast.expr):
                yield part, ANY
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield node.test, ANY
        if isinstance(node, ast.keyword) and node.arg in LAYOUT:
            yield node.value, ANY
        if isinstance(node, ast.arguments):
            for default in (*node.defaults, *node.kw_defaults):
                yield from _amounts(default)
        if isinstance(node, ast.Module | ast.ClassDef):
            for statement in node.body:
                if isinstance(statement, ast.Assign | ast.AnnAssign):
                    yield from _amounts(statement.value)
                    if _is_union(statement.value):
                        yield statement.value, ANY


def _amounts(value: ast.expr | None) -> Iterator[tuple[ast.expr, str]]:
    for node in ast.walk(value) if value is not None else ():
        number = node.value if isinstance(node, ast.Constant) else None
        is_amount = isinstance(number, float) or (isinstance(number, int) and number >= AMOUNT)
        if is_amount and isinstance(node, ast.expr):
            yield node, "NumberReplacer"


def _is_union(value: ast.expr | None) -> TypeGuard[ast.BinOp]:
    """Whether the value is a union of types, as in an alias."""
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.BitOr):
        return False
    last = value.right
    return isinstance(last, ast.Name | ast.Subscript) or (isinstance(last, ast.Constant) and last.value is None)


def _places(node: ast.expr, operator: str) -> Iterator[tuple[int, int, str]]:
    """Yield (line, column, operator) for all positions in the node."""
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    for line in range(node.lineno, node.end_lineno + 1):
        begin = node.col_offset if line == node.lineno else 0
        end = node.end_col_offset if line == node.end_lineno else 1_000
        for column in range(begin, end):
            yield line, column, operator
