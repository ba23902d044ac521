"""Which Spark SQL a topology may hold: expressions over the columns of a row, of functions that are known to be harmless.

A topology is a file, and a file must not run code. Spark's SQL can: ``reflect`` and ``java_method`` call any Java method,
a subquery reads any file, a ``${env:NAME}`` is replaced before the text is even parsed. So only what stands on the list
below passes, everything else is refused by name.

The check is made three times. First on the text, by a small scanner that needs no Spark (`check_text`): a topology is
refused when it is read. Then on what Spark's parser makes of it (`check_parsed`), and on what its analyser does
(`check_analysed`): a difference between the two readings of a text, or a function of the session that hides a built-in
one, cannot slip through.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from keyshift.models.base.disk import parse_json
from keyshift.models.errors import InputError

_NAMES = """
abs acos acosh asin asinh atan atan2 atanh bin bround cbrt ceil ceiling conv cos cosh cot csc degrees div e exp
expm1 factorial floor greatest hex hypot least ln log log10 log1p log2 mod negative nullifzero pi pmod positive pow
power radians rint round sec shiftleft shiftright shiftrightunsigned sign signum sin sinh sqrt tan tanh try_add
try_divide try_mod try_multiply try_subtract unhex width_bucket zeroifnull bit_count bit_get getbit

ascii base64 bit_length btrim char char_length character_length chr concat concat_ws contains decode elt encode
endswith find_in_set format_number initcap instr lcase left len length levenshtein like ilike locate lower lpad
ltrim mask octet_length overlay position quote regexp regexp_count regexp_extract regexp_extract_all regexp_instr
regexp_like regexp_replace regexp_substr replace right rlike rpad rtrim soundex split split_part startswith substr
substring substring_index to_char to_number to_varchar translate trim try_to_number ucase unbase64 upper

add_months convert_timezone date date_add date_diff date_format date_from_unix_date date_part date_sub date_trunc
dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear extract from_unixtime from_utc_timestamp hour
last_day make_date make_timestamp make_timestamp_ltz make_timestamp_ntz minute month monthname months_between
next_day quarter second timestamp timestamp_micros timestamp_millis timestamp_nanos timestamp_seconds to_date
to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp trunc try_make_timestamp
try_to_date try_to_timestamp unix_date unix_micros unix_millis unix_nanos unix_seconds unix_timestamp weekday
weekofyear year

case coalesce equal_null if ifnull isnan isnotnull isnull nanvl not nullif nvl nvl2 when between in and or

bigint binary boolean cast decimal double float int smallint string tinyint try_cast

array array_contains array_distinct array_except array_intersect array_join array_max array_min array_position
array_size array_sort array_union arrays_overlap cardinality element_at exists filter flatten forall get map
map_contains_key map_from_arrays map_from_entries map_keys map_values named_struct reverse size slice sort_array
struct try_element_at

crc32 hash md5 sha sha1 sha2 xxhash64
from_json get_json_object json_array_length json_object_keys parse_url try_parse_url to_json try_url_decode
url_decode url_encode
"""

FUNCTIONS = frozenset(_NAMES.split())
"""The functions that may be called: deterministic, of one row, and blind to everything but their arguments."""

REASONS = {
    "reflect": "it calls Java methods",
    "try_reflect": "it calls Java methods",
    "java_method": "it calls Java methods",
    **dict.fromkeys(("xpath", "from_xml", "schema_of_xml"), "it reads XML, which may refer to files"),
    **dict.fromkeys(("from_avro", "from_protobuf", "to_protobuf"), "it may read files"),
    **dict.fromkeys(("read_files", "text", "csv", "json", "parquet", "orc", "avro", "binaryfile"), "it reads files"),
    **dict.fromkeys(("input_file_name", "input_file_block_start", "input_file_block_length"), "it tells about files"),
    **dict.fromkeys(("rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle"), "it draws at random"),
    **dict.fromkeys(("now", "current_date", "current_timestamp", "curdate", "localtimestamp"), "it reads the clock"),
    **dict.fromkeys(("user", "current_user", "session_user", "version"), "it tells about the session"),
    **dict.fromkeys(("sum", "count", "avg", "mean", "min", "max", "first", "last", "any", "any_value", "collect_list",
                     "collect_set", "median", "mode", "stddev", "variance"), "it is an aggregate, of many rows"),
    **dict.fromkeys(("explode", "explode_outer", "posexplode", "inline", "stack", "json_tuple"), "it makes many rows"),
    **dict.fromkeys(("repeat", "space", "sequence", "array_repeat"), "a few letters of it fill the memory"),
    **dict.fromkeys(("raise_error", "assert_true"), "it stops the job"),
    "identifier": "it turns a text into a name",
}  # fmt: skip
"""Why some functions are not on the list; the others are merely unknown to it."""

WORDS = {
    "select": "subqueries read other tables",
    "from": "subqueries read other tables",
    **dict.fromkeys(("current_date", "current_timestamp", "current_time", "localtimestamp", "curdate"),
                    "it reads the clock"),
    **dict.fromkeys(("current_user", "session_user", "current_catalog", "current_database", "current_schema"),
                    "it tells about the session"),
}  # fmt: skip
"""Words that no expression over a row needs; FROM is allowed in ``extract(year FROM t)`` and the like."""

_QUERIES = frozenset(("values", "table", "with", "map", "reduce"))
"""Words that begin a query where they follow an opening parenthesis."""

_FROM = frozenset(("extract", "trim", "btrim", "ltrim", "rtrim", "substring", "substr", "overlay", "position"))
"""Functions whose arguments may hold the word FROM."""

_BEFORE_PARENTHESIS = frozenset(
    ("varchar", "numeric", "dec", "time", "timestamp_ntz", "then", "else", "and", "or", "not", "in", "when", "like",
     "div", "from")
)  # fmt: skip
"""Words before a parenthesis that call nothing: types with a length, and operators."""

LONGEST = 10_000
"""Characters in one expression."""

DEEPEST = 100
"""Parentheses in parentheses."""

COLUMN, MOST_MADE = 100, 2**24
"""A text of a column has about so many letters; an expression that could make so many of it is refused."""

_GROWTH = {"hex": 2, "base64": 2, "quote": 2, "url_encode": 3, "encode": 4, "to_json": 6, "bin": 64, "conv": 64}
"""How many letters some functions make of one."""

_LENGTH = frozenset(("lpad", "rpad", "format_number"))
"""Functions that make as many letters as their second argument says."""

# Spark's own lexer splits the same way. It reads comments, hints and dollar quotes too; here they are signs, refused.
_TOKEN = re.compile(
    r"""(?P<blank>\s+)
      | (?P<raw>[rR](?:'[^']*'|"[^"]*"))
      | (?P<text>(?:'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"))
      | (?P<quoted>`(?:[^`]|``)+`)
      | (?P<number>\.?\d[\w.]*)
      | (?P<word>[^\W\d]\w*)
      | (?P<sign>--|/\*|\S)""",
    re.VERBOSE | re.DOTALL,
)


def check_text(what: str, text: str) -> None:
    """Refuse an expression that is not made of columns, literals, operators and `FUNCTIONS`. No Spark is needed.

    Raises
    ------
    InputError
        With the function or the word that is refused, and why.
    """
    said = f"{what} = {_short(text)}"
    opened: list[str] = []  # what stands before each parenthesis that is open
    before, last = "", ("", "")
    for kind, token in _tokens(said, text):
        name = _name(kind, token)
        if token == "(":
            _check_call(said, before, *last)
            opened.append(_name(*last))
            if len(opened) > DEEPEST:
                raise InputError(f"{said} is refused: it is nested more than {DEEPEST} deep")
        elif token == ")" and opened:
            opened.pop()
        elif kind == "word" and last[1] != ".":
            allowed = name == "from" and bool(opened) and opened[-1] in _FROM
            if name in WORDS and not allowed:
                raise InputError(f"{said} is refused: {name}: {WORDS[name]}")
            if name in _QUERIES and last[1] == "(":
                raise InputError(f"{said} is refused: {name}: subqueries read other tables (a column? write `{name}`)")
        before, last = last[1], (kind, token)


def check_schema(text: str) -> None:
    """Refuse columns whose description holds more than names, types and comments: a default could be an expression."""
    said = f"schema = {_short(text)}"
    for kind, token in _tokens(said, text):
        if kind == "word" and _name(kind, token) in ("default", "generated", "as"):
            raise InputError(f"{said} is refused: {token}: a schema has names, types and comments only")


def _check_call(said: str, before: str, kind: str, token: str) -> None:
    """Refuse an opening parenthesis after what calls something else than `FUNCTIONS`."""
    name = _name(kind, token)
    if kind in ("number", "raw") or token in (")", "]"):
        raise InputError(f"{said} is refused: {token} is not a function")
    if kind not in ("word", "quoted", "text"):
        return
    if before == ".":
        raise InputError(f"{said} is refused: {name}: functions are called by their name alone")
    if name not in FUNCTIONS and not (kind == "word" and name in _BEFORE_PARENTHESIS):
        why = REASONS.get(name, "it is not on the list of functions")
        raise InputError(f"{said} is refused: {name}: {why} (a column of such a name? write it in backticks)")


def _tokens(said: str, text: str) -> Iterator[tuple[str, str]]:
    """Split into tokens; refuse what Spark would replace or skip before it reads the text."""
    if len(text) > LONGEST:
        raise InputError(f"{said} is refused: it has {len(text)} characters, more than {LONGEST}")
    if "${" in text:
        raise InputError(f"{said} is refused: Spark would put a setting or a variable of the machine for ${{...}}")
    for found in _TOKEN.finditer(text):
        kind, token = str(found.lastgroup), found[0]
        if token in ("--", "/*", "$"):
            raise InputError(f"{said} is refused: {token}: no comments, hints or dollar quotes")
        if token in ("'", '"', "`"):
            raise InputError(f"{said} cannot be read: a quotation does not end")
        if kind != "blank":
            yield kind, token


def _name(kind: str, token: str) -> str:
    """A word as Spark compares it: its lexer puts letters such as the long s in capitals first."""
    bare = token[1:-1].replace("``", "`") if kind in ("quoted", "text") else token
    return bare.upper().lower()


def _short(text: str) -> str:
    return repr(text if len(text) <= 120 else text[:117] + "...")


# On what Spark made of it ------------------------------------------------------------------------------------------

_REFUSED = (
    "ScalarSubquery", "Exists", "InSubquery", "ListQuery", "LateralSubquery", "FunctionTableSubqueryArgumentExpression",
    "CallMethodViaReflection", "TryReflect", "ScalaUDF", "PythonUDF", "PythonUDAF", "HiveSimpleUDF",
    "HiveGenericUDF", "WindowExpression", "AggregateExpression", "InputFileName", "LocalTimestamp", "Now",
    "VariableReference",
)  # fmt: skip


def attributes_of(parsed: Any) -> Iterator[list[str]]:
    """The names, part by part, that an expression of Spark's parser takes for columns."""
    for node in _nodes([parsed]):
        if node.getClass().getSimpleName() == "UnresolvedAttribute":
            yield list(map(str, _listed(node.nameParts())))


def check_parsed(what: str, text: str, whole: Any) -> None:
    """Refuse an expression that calls other functions than `FUNCTIONS` in Spark's own reading of it.

    Parameters
    ----------
    what, text : str
        The expression, and what it is for the message.
    whole : JavaObject
        What Spark's parser makes of it.
    """
    for node in _nodes([whole]):
        kind = node.getClass().getSimpleName()
        if kind == "UnresolvedFunction":
            parts = node.nameParts()
            name = str(parts.mkString(".")).lower()
            if name not in FUNCTIONS:
                said = REASONS.get(name, "it is not on the list of functions")
                raise InputError(f"{what} = {_short(text)} is refused: {name}: {said}")
        elif kind in _REFUSED or "UnresolvedIdentifier" in kind:
            raise InputError(f"{what} = {_short(text)} is refused: {kind} needs more than one row")
    if (made := _letters(whole)) > MOST_MADE:
        raise InputError(f"{what} = {_short(text)} is refused: its value would fill the memory (up to {made:.2g})")


def _letters(whole: Any) -> float:
    """How many letters an expression may make of a column's `COLUMN`."""
    nodes, above = [whole], [0]
    for at, node in enumerate(nodes):  # which grows
        nodes += _listed(node.children())
        above += [at] * (len(nodes) - len(above))
    parts: list[list[tuple[Any, float]]] = [[] for _ in nodes]
    for at in range(len(nodes) - 1, 0, -1):
        parts[above[at]].insert(0, (nodes[at], _made(nodes[at], parts[at])))
    return _made(whole, parts[0])


def _made(node: Any, parts: list[tuple[Any, float]]) -> float:
    """How many letters one node makes of those of its children."""
    kind = node.getClass().getSimpleName()
    if kind in ("Literal", "UnresolvedAttribute"):
        return float(COLUMN) if kind == "UnresolvedAttribute" else max(1.0, float(len(str(node.toString()))))
    name = str(node.nameParts().mkString(".")).lower() if kind == "UnresolvedFunction" else ""
    if name in _LENGTH and len(parts) > 1:
        said = str(parts[1][0].toString())
        return parts[0][1] + (float(said) if re.fullmatch(r"[0-9]{1,12}", said) else math.inf)
    if name in ("replace", "regexp_replace") and len(parts) > 2:
        literal = name == "replace" and parts[1][0].getClass().getSimpleName() == "Literal"
        return parts[0][1] * max(1.0, parts[2][1] / (parts[1][1] if literal else 1.0))
    return max(1.0, sum(size for _, size in parts)) * _GROWTH.get(name, 1)


def check_analysed(what: str, text: str, plan: Any) -> None:
    """Refuse an analysed ``Project [expression]`` that holds what the other checks are there to keep out.

    That is above all a function of the session that hides a built-in one, and a word that Spark takes for the clock or
    the user because the log has no such column.

    Parameters
    ----------
    plan : JavaObject
        Catalyst's logical plan, of which only the topmost node is looked at: what lies below is the log.
    """
    if plan.nodeName() != "Project":
        raise InputError(f"{what} = {_short(text)} is refused: it is not an expression of one row ({plan.nodeName()})")
    for node in _nodes(_listed(plan.expressions())):
        kind = node.getClass().getSimpleName()
        if kind in _REFUSED or kind.startswith("Current") or not node.deterministic():
            raise InputError(f"{what} = {_short(text)} is refused: {node.prettyName()} needs more than one row")


_ORDERED = frozenset(("LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual", "Greatest", "Least"))


def check_order(what: str, text: str, plan: Any, mark: Mapping[str, str]) -> None:
    """Refuse to order columns with a mark in their metadata: they are texts, of which 9 comes after 10, and may mean numbers."""
    for node in _nodes(_listed(plan.expressions())):
        if node.getClass().getSimpleName() in _ORDERED:
            sides = _listed(node.children())
            if all(
                side.getClass().getSimpleName() == "AttributeReference"
                and parse_json(side.metadata().json(), what) == mark
                for side in sides
            ):
                names = " and ".join(str(side.name()) for side in sides)
                raise InputError(
                    f"{what} = {_short(text)} orders {names}, which are texts, letter by letter: give a schema, or cast them"
                )


def _nodes(waiting: list[Any]) -> Iterator[Any]:
    """All nodes of Catalyst expressions."""
    while waiting:
        node = waiting.pop()
        yield node
        waiting += _listed(node.children())


def _listed(sequence: Any) -> list[Any]:
    """A sequence of Scala's as a list."""
    return [sequence.apply(i) for i in range(sequence.size())]
