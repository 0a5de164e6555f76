"""`make lab-secrets`: how much of a public corpus of fake secrets is masked, how many ordinary lines, and at what cost.

The folders should hold recordings without secrets; what is masked in them is printed.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

from tests.secrets.__main__ import line_of
from tests.secrets.corpus import PackagedRule, examples, packaged_rules
from tests.secrets.shapes import fakes
from tests.secrets.translate import LeftOut
from tooltap.traces.recording import secrets
from tooltap.traces.recording.secret_rules import finder, rules
from tooltap.traces.recording.secrets import mask_lines, mask_secrets

FIXTURES = Path(__file__).parents[1] / "fixtures"
ENDINGS = {".jsonl", ".ndjson", ".txt", ".log"}
LEAST_MASKED = 0.97
MOST_TOUCHED = 0.000_1
OF_ITS_EXAMPLES = frozenset(
    ("azure-devops-token", "azure-registry-key", "maxmind-key", "ionic-token", "truenas-key"),
)
"""Kinds with rules of ours that were written for examples of the corpus, where its own rules could not be converted."""
MOST_SECONDS = 3e-9
"""Maximum processor time per byte: 3 µs per kB."""
BATCH = 65_536
ROUNDS = 5
_MASK = re.compile(r"\[masked [a-z0-9-]+\]")


def main(folders: Sequence[str]) -> int:
    all_kept = masked_of_corpus() >= LEAST_MASKED
    masked_without_own_rules()
    all_kept &= masked_of_shapes() >= LEAST_MASKED
    lines = [line for folder in folders or [str(FIXTURES)] for line in lines_of(Path(folder))]
    all_kept &= touched(lines, show=True) < MOST_TOUCHED
    seconds = seconds_for_each_byte(lines)
    print(f"time: {seconds * 1e9:.2f} µs for each kB")
    return 0 if all_kept and seconds < MOST_SECONDS else 1


def is_masked(text: str, secret: str) -> bool:
    """Whether a secret is masked in a plain text, and in a JSON string that remains JSON."""
    inside = json.loads(mask_secrets(json.dumps({"text": text}).encode()))["text"]
    bare = mask_secrets(text.encode()).decode()
    return all(secret not in _MASK.sub("", one) for one in (inside, bare))


def masked_of_corpus() -> float:
    kept: Counter[str] = Counter()
    total = 0
    for example in examples():
        if example.secret:
            total += 1
            kept[example.rule] += not is_masked(example.text, example.secret)
    share = 1 - kept.total() / total
    print(f"public corpus: {share:.1%} of {total} masked; not: {', '.join(sorted(+kept))}")
    return share


def masked_without_own_rules() -> None:
    """Measure secrets of unknown forms: the same examples, without the rules that were made for them."""
    left_out = {_pattern(rule) for rule in packaged_rules()}
    kept = [
        rule
        for rule in rules()
        if rule.pattern is None or (rule.pattern.decode() not in left_out and rule.kind not in OF_ITS_EXAMPLES)
    ]
    untaken = {rule.id for rule in packaged_rules() if _pattern(rule) is None}
    literals = [(literal, rule) for rule in kept for literal in rule.literals]
    found = finder([literal for literal, _ in literals]), [rule for _, rule in literals]
    with patch.object(secrets, "_found", lambda: found):
        made = [one for one in examples() if one.secret]
        of_all = [is_masked(one.text, str(one.secret)) for one in made]
        of_untaken = [is_masked(one.text, str(one.secret)) for one in made if one.rule in untaken]
    less = len(rules()) - len(kept)
    print(f"without the {less} rules of its source: {_share(of_all)} masked")
    print(f"examples of rules that were not taken: {_share(of_untaken)} masked")


def _share(masked: Sequence[bool]) -> str:
    return f"{sum(masked) / len(masked):.1%} of {len(masked)}"


def _pattern(rule: PackagedRule) -> str | None:
    """Return the rule's pattern as in our table; None if it was not translated."""
    try:
        return str(line_of(rule.id.removeprefix("kingfisher."), rule.pattern, rule.group, rule.least_entropy)[4])
    except LeftOut:
        return None


def masked_of_shapes() -> float:
    made = [fake for seed in range(10) for fake in fakes(seed)]
    share = sum(is_masked(one.text, one.secret) for one in made) / len(made)
    print(f"shapes: {share:.1%} of {len(made)} masked")
    return share


def lines_of(folder: Path) -> list[bytes]:
    paths = sorted(path for path in folder.rglob("*") if path.suffix in ENDINGS and path.is_file())
    return [line for path in paths for line in path.read_bytes().split(b"\n") if line]


def touched(lines: Sequence[bytes], *, show: bool = False) -> float:
    counts: Counter[str] = Counter()
    changed = [new for old, new in zip(lines, mask_lines(lines, counts), strict=True) if new is not old]
    if show:
        print(f"ordinary lines: {len(changed)} of {len(lines)} touched {dict(counts)}")
        for line in changed[:20]:
            place = line.find(b"[masked ")
            print("   ", line[max(0, place - 60) : place + 60].decode(errors="replace"))
    return len(changed) / len(lines)


def seconds_for_each_byte(lines: Sequence[bytes]) -> float:
    """Measure the processor time per byte, in batches like those of a trace; the minimum of several rounds."""
    batches: list[list[bytes]] = [[]]
    size = 0
    for line in lines:
        if size > BATCH:
            batches.append([])
            size = 0
        batches[-1].append(line)
        size += len(line)
    least = float("inf")
    for _ in range(ROUNDS):
        began = time.thread_time()
        for batch in batches:
            mask_lines(batch)
        least = min(least, time.thread_time() - began)
    return least / sum(map(len, lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
