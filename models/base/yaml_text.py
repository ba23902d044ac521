"""YAML of bounded size: what a reader has to walk over is known before anything is built."""

from __future__ import annotations

import json
import re
from itertools import accumulate
from pathlib import Path
from typing import Any

import yaml

from keyshift.models.base.disk import read_text
from keyshift.models.errors import InputError

MOST_YAML = 2**20
"""Bytes of the largest YAML file that is read."""


class _Loader(yaml.SafeLoader):
    """Safe loading, with the numbers of YAML 1.2: 1e6 is a number, 010 is ten, 1:30 and 2024-01-01 are texts.

    The keys of mappings are names, and stay texts.
    """

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Count what a node stands for: an alias stands for all that its anchor holds."""
        self.depth = getattr(self, "depth", 0) + 1
        if self.depth > 50:
            raise yaml.YAMLError("it is nested more than 50 deep")
        node = super().compose_node(parent, index)
        self.depth -= 1
        if node is not None and index is None and isinstance(parent, yaml.MappingNode) and node.tag in _SCALARS:
            node = yaml.ScalarNode(_TEXT, node.value, node.start_mark, node.end_mark)
        weights = self.__dict__.setdefault("weights", {})
        if id(node) not in weights:
            weights[id(node)] = 1 + sum(weights.get(id(child), 1) for child in _children(node))
        # Values in a document, those that an alias repeats counted each time.
        if weights[id(node)] > 200_000:
            raise yaml.YAMLError(f"it stands for more than {200_000:,} values")
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """Refuse a key that is named twice."""
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(set(keys)) < len(keys):
            twice = next(key for at, key in enumerate(keys) if key in keys[:at])
            raise yaml.YAMLError(f"it names {twice!r} twice")
        return super().construct_mapping(node, deep)  # type: ignore[no-any-return]


def _children(node: Any) -> list[Any]:
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


class _TextLoader(_Loader):
    """The same, but every scalar is the text that stands there; null, or nothing, is none."""


_TEXT = "tag:yaml.org,2002:str"
_SCALARS = tuple(f"tag:yaml.org,2002:{kind}" for kind in ("bool", "float", "int", "null"))
_REPLACED = tuple(f"tag:yaml.org,2002:{kind}" for kind in ("float", "int", "timestamp", "value"))
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag not in _REPLACED]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"[-+]?[0-9]+$|0x[0-9a-fA-F]+$"), list("-+0123456789")
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$|[-+]?\.(inf|Inf|INF)$|\.(nan|NaN|NAN)$"),
    list("-+0123456789."),
)
_Loader.add_constructor(
    "tag:yaml.org,2002:int", lambda loader, node: int(node.value, 16 if node.value[:2].lower() == "0x" else 10)
)
_TextLoader.yaml_implicit_resolvers = {"<": yaml.SafeLoader.yaml_implicit_resolvers["<"]}
_TextLoader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile("null$|$"), ["n", ""])


def parse_yaml(text: str, of: str, *, texts: bool = False) -> Any:
    """The value of a YAML text.

    Parameters
    ----------
    text : str
    of : str
        Where the text is from, for the message.
    texts : bool
        Leave every scalar the text that stands there: 1_2, 007, 1.10 and on are names. Only null is none.

    Raises
    ------
    InputError
        If it is not YAML, is nested too deeply, or stands for too many values.
    """
    if len(text) > MOST_YAML:
        raise InputError(f"{of} has {len(text):,} characters; at most {MOST_YAML:,} are read")
    if _depth(text) > 50:
        raise InputError(f"{of} is not readable YAML: it is nested more than 50 deep")
    try:
        content = yaml.load(text, Loader=_TextLoader if texts else _Loader)
        json.dumps(content, ensure_ascii=False, default=str, skipkeys=True).encode()
        return content
    except UnicodeEncodeError as error:
        raise InputError(f"{of} holds {error.object[error.start]!a}, which is only half of a character") from None
    except RecursionError:
        raise InputError(f"{of} is not readable YAML: it is nested too deeply") from None
    except (yaml.YAMLError, ValueError, TypeError) as error:
        where, said = "", str(error)
        if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
            where, said = f", line {error.problem_mark.line + 1}", f"{error.problem or error}"
        raise InputError(f"{of}{where} is not readable YAML: {' '.join(said.split())[:200]}") from None


def _depth(text: str) -> int:
    """Open brackets at most, those in quotes too: PyYAML looks ahead of each of them for the colon of a key."""
    steps = [1 if c in "[{" else -1 for c in text if c in "[]{}"]
    return max(accumulate(steps), default=0)


def read_yaml(file: str | Path, most: int = MOST_YAML, *, texts: bool = False) -> Any:
    """The value of a YAML file; see `parse_yaml`."""
    return parse_yaml(read_text(Path(file), most), str(file), texts=texts)
