"""`make secret-rules`: writes the rules of a secret scanner as rules for raw lines.

The source is a package that is installed for this only: `SOURCE` says which, and its rules are those of two projects,
whose names and licences are in `docs/NOTICE`.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.secrets.corpus import NO_SECRET as UNNAMED
from tests.secrets.corpus import PACKAGE, packaged_rules
from tests.secrets.translate import LeftOut, Translated, translate

__all__ = ["line_of"]

SOURCE = "kingfisher-secret-scanner"
TABLE = Path(__file__).parents[2] / "traces" / "static" / "secret_rules.jsonl"
ABOUT = (
    "Rules of Betterleaks (MIT, (c) 2026 Zachary Rice) and of Veles in OSV-SCALIBR (Apache-2.0, (c) 2025-2026 Google "
    "LLC), as the first package has them, and of Kingfisher (Apache-2.0, (c) 2025-2026 MongoDB, Inc.; in parts "
    "(c) 2022 Praetorian Security, Inc.), as the second has them; changed by `make secret-rules`: see docs/NOTICE. "
    "Each further line: kind, least entropy, whether case matters in the literals, the literals (some with a set and "
    "how many of it follow), the expression."
)
NO_SECRET = re.compile(
    r"-(?:url|host|domain|(?:client|account|tenant|application|app)-id|(?:account|cloud|token|site|user)-?name|username"
    r"|repository|generic-.*|email|project-id|org-id|index)(?:\.\d+)?$|public|publishable|-pub-|generic-|/.*-client-id|^aiven$"
)
"""Matches names of rules that find no secret, or anything."""
COMMON = {
    "00",
    "bx",
    "app",
    "poly",
    "sf",
    "API-",
    "api",
    "re_",
    "sk_",
    "id",
    "live_",
    "line",
    "new",
    "render",
    "track",
    "ion_",
    "fal",
    "tracking",
    "ext_",
    "curl",
    "data",
    "test_",
    "prod",
    "http",
    "https://",
    "http://",
    "key",
    "secret",
    "access",
    "token",
    "password",
    "account",
    "client",
    "user",
    "auth",
    "box",
    "message",
}
"""Words that are in nearly every line. Secrets named by them are found by the names in `secret_rules.py`."""
LONGEST_WITH_TAIL = 6
MAX_TAIL = 12
LEAST_WORD = 4
"""Minimum length of a name in characters. Shorter ones are parts of other words."""


def main() -> int:
    from kingfisher_sdk.rules import Rules  # type: ignore[import-not-found,unused-ignore]

    rules = Rules(confidence="low", cache=False)
    lines: list[list[Any]] = []
    left_out: Counter[str] = Counter()
    sources: list[tuple[str, str, int, float]] = []
    for found in sorted(rules.metadata(), key=lambda one: str(one["id"])):
        rule = rules.detail(found["id"])
        name = str(rule["id"]).partition(".")[2].replace("secrets/", "")
        entropy = _least_entropy(rule["betterleaks_filter"]) or float(rule["min_entropy"])
        sources.append((name, rule["pattern"], rule["betterleaks_secret_group"], entropy))
    for packaged in packaged_rules():
        name = packaged.id.removeprefix("kingfisher.")
        if not UNNAMED.search(packaged.name):
            sources.append((name, packaged.pattern, packaged.group, packaged.least_entropy))
    for source in sources:
        try:
            line = line_of(*source)
            if all(line[4] != other[4] for other in lines):
                lines.append(line)
        except LeftOut as error:
            left_out[str(error)] += 1
            print(f"left out: {source[0]} {error}", file=sys.stderr)
    head = {"sources": [f"{SOURCE}=={version(SOURCE)}", PACKAGE], "about": ABOUT}
    TABLE.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in [head, *lines]))
    print(f"{len(lines)} rules; left out: {dict(left_out)}")
    return 0


def line_of(name: str, pattern: str, group: int, entropy: float) -> list[Any]:
    name = re.sub(r"(?:\.\d+)+$", "", name).replace(".", "-")
    if NO_SECRET.search(name):
        raise LeftOut("no secret")
    done: Translated = translate(pattern, group)
    short = LEAST_WORD if done.contextual else 0
    literals = tuple(
        one for one in done.literals if one not in COMMON and len(one) >= short and not one.startswith("/")
    )
    if not literals:
        raise LeftOut("begins with a common word")
    least = min(max(entropy, 2.5), 3.5) if done.contextual else min(entropy, 3.0)
    texts = [_with_tail(one, done) for one in _shortest(literals)]
    return [name, least, not done.caseless, texts, done.pattern]


def _with_tail(literal: str, done: Translated) -> str | list[Any]:
    """Return a literal; a short one, which occurs in many words, with the set of characters that must follow, if it is
    one set."""
    follows = re.search(re.escape(literal) + r"\)?(\[[^\]]*\])\{(\d+)", done.pattern)
    if done.contextual or len(literal) > LONGEST_WITH_TAIL or follows is None:
        return literal
    return [literal, follows[1], min(int(follows[2]), MAX_TAIL)]


def _shortest(literals: tuple[str, ...]) -> list[str]:
    """Remove literals that begin with another one."""
    return [one for one in literals if not any(one != other and one.startswith(other) for other in literals)]


def _least_entropy(tree: Any) -> float:
    if not isinstance(tree, dict):
        return 0.0
    left = tree.get("left")
    if tree.get("operator") == "<" and isinstance(left, dict) and left.get("callee", {}).get("value") == "entropy":
        return float(tree["right"]["value"])
    return max((_least_entropy(one) for one in (left, tree.get("right"))), default=0.0)


if __name__ == "__main__":
    sys.exit(main())
