"""Launch scripts: shell, parsed and never run, into the commands that they would start.

Variables, arrays, defaults (`${TP:-8}`), arithmetic, functions and tests are followed as far as the script alone says
what they are. What comes from elsewhere (arguments, the environment, other programs) is Unresolved and says why; within
a longer text it is a hole, so that the words around it are read.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from sizing.config_files.launchers import command_source, directives, ranks_of_environment
from sizing.config_files.source import (
    DIFFERS,
    ConfigSource,
    ConfigText,
    Setting,
    SourceBuilder,
    Unresolved,
    document_source,
    find_hole,
    parse_settings,
    with_hole,
    without_holes,
)

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

SCRIPT_ENDINGS = (".sh", ".bash", ".slurm", ".sbatch")
"""Ends of the names of scripts, whatever is in them."""

MAX_DEPTH = 20
"""Functions that call functions, and scripts within strings: deeper than people write."""

_SET_BY_THEIR_INPUT = {"read", "mapfile", "readarray", "getopts"}
"""Commands that set the variables among their words to what the script does not say."""

_ENVIRONMENTS = {"activate", "conda.sh", "mamba.sh", ".bashrc", ".bash_profile", ".profile", "profile", "bashrc"}
"""Names of files that are sourced for programs and libraries, and set no variable of a training."""

_SUCCESSFUL = {"true", ":", "echo", "printf", "cd", "mkdir", "set", "source", "."}
"""Commands that people write for what they do and not as a test: what follows them by `&&` is run."""

MAX_COMMANDS = 2_000
"""Commands of a script, of which people write some hundred: a loop without end stops here."""

Text = str | Unresolved
"""A word of a command or the value of a variable."""

_SHELL = re.compile(
    r"#!.*\b(ba|z|k|da)?sh\b|^\s*#SBATCH\b|^\s*(export\s+)?[A-Za-z_]\w*=\S|\\\s*$|^\s*--\w", re.MULTILINE
)
_FIRST_WORDS = re.compile(
    r"^\s*(?:[A-Za-z_]\w*=\S*\s+)*(torchrun|python3?|srun|deepspeed|accelerate|mpirun|llamafactory-cli|axolotl|trl|swift|export|set|bash|sbatch)\b\s+[^:=]",
    re.MULTILINE,
)


_FLAGS_IN_VARIABLE = re.compile(r"^\s*(export\s+)?[A-Za-z_]\w*\+?=(\(|[\"']?\s*\\?\s*--?[a-z])", re.MULTILINE)


_COMMAND = re.compile(
    r"^\s*([A-Z_]+=\S*\s+)*(python[\d.]*|torchrun|deepspeed|accelerate|srun)\s[^:=\n]*(\.py\b|-m\s+\w)", re.MULTILINE
)


def is_script(text: str) -> bool:
    """Tell a shell script from a document, by what only a script has."""
    begin = text.lstrip()
    if begin.startswith("#!"):
        return True
    if begin.startswith(("{", "[")):
        return False
    if _FLAGS_IN_VARIABLE.search(text) or _COMMAND.search(text):
        return True
    return bool(_FIRST_WORDS.search(text)) and bool(_SHELL.search(text) or "\n" not in text.strip())


@cache
def _parser() -> Parser:
    import tree_sitter  # noqa: PLC0415 - only scripts need the parser
    import tree_sitter_bash  # noqa: PLC0415 - as above

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def script_sources(file: ConfigText) -> list[ConfigSource]:
    """List the commands of a script as sources of settings, and the documents that it writes by `cat <<EOT`."""
    run = _Run(file.name)
    slurm = SourceBuilder(file.name)
    for name, value, line in directives(file.content):
        slurm.add(name, value, f"{file.name}, line {line}: {name.removeprefix('launcher.slurm_')}")
    run.set_slurm_variables(slurm.settings)
    run.text(file.content)
    for name, line in run.sourced.items():
        why = Unresolved("may set variables: they are taken as the script alone says them")
        slurm.add(f"source {name}", why, f"{file.name}, line {line}: source {name}")
    commands = [command_source(file.name, words, line, slurm.settings) for words, line in run.commands]
    sources = [each for each in commands if each is not None]
    if not any(len(each.settings) > len(slurm.settings) for each in sources):
        sources += _sources_of_variables(file.name, run.variables)
    return [*sources, *run.documents]


def _sources_of_variables(file: str, variables: Mapping[str, Text | list[Text]]) -> list[ConfigSource]:
    """Read the flags that variables hold, of a script that starts nothing itself and that others include."""
    words: list[Text] = []
    for value in variables.values():
        of_variable = value if isinstance(value, list) else value.split() if isinstance(value, str) else []
        if any(isinstance(word, str) and re.match(r"--[a-z]", word) for word in of_variable) and of_variable != words:
            is_longer = of_variable[: len(words)] == words
            words = [*([] if is_longer else words), *of_variable]
    source = command_source(file, ["train.py", *words], 1, {}) if words else None
    return [] if source is None else [source]


@dataclass
class _Run:
    """State of a script that is followed: its variables and functions so far, and the commands that it would start."""

    file: str
    variables: dict[str, Text | list[Text]] = field(default_factory=dict)
    functions: dict[str, Node] = field(default_factory=dict)
    commands: list[tuple[list[Text], int]] = field(default_factory=list)
    documents: list[ConfigSource] = field(default_factory=list)
    sourced: dict[str, int] = field(default_factory=dict)
    depth: int = 0
    first_line: int = 0

    def set_slurm_variables(self, settings: dict[str, Setting]) -> None:
        """Set what Slurm tells a job of the directives in the script."""
        for variable, name in {
            "SLURM_NNODES": "nodes",
            "SLURM_JOB_NUM_NODES": "nodes",
            "SLURM_NTASKS": "ntasks",
            "SLURM_NTASKS_PER_NODE": "ntasks_per_node",
            "SLURM_GPUS_ON_NODE": "gpus_per_node",
            "SLURM_GPUS_PER_NODE": "gpus_per_node",
        }.items():
            setting = settings.get(f"launcher.slurm_{name}")
            if setting is not None and str(setting.value).isdecimal():
                self.variables[variable] = str(setting.value)

    def text(self, text: str, *, first_line: int = 0) -> None:
        """Follow a script, or one that stands in a string of another."""
        if self.depth >= MAX_DEPTH:
            return
        before, self.first_line = self.first_line, first_line or self.first_line
        self.depth += 1
        self.follow(_parser().parse(text.encode()).root_node)
        self.depth -= 1
        self.first_line = before

    def follow(self, node: Node) -> None:
        """Follow a statement: keep what it assigns, and the commands that it would start."""
        if len(self.commands) >= MAX_COMMANDS:
            return
        handlers: dict[str, Callable[[Node], object]] = {
            "variable_assignment": self._assign,
            "list": self._succeeds,
            "command": self._command,
            "if_statement": self._if,
            "case_statement": self._case,
            "for_statement": self._for,
            "function_definition": self._define,
            "redirected_statement": self._redirected,
            "c_style_for_statement": self._for,
            "unset_command": self._unset,
            "subshell": self._subshell,
            "pipeline": self._subshell,
        }
        handler = self._number if _is_arithmetic(node) else handlers.get(node.type)
        if handler is not None:
            handler(node)
        else:
            for child in node.named_children:
                self.follow(child)

    def _define(self, node: Node) -> None:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self.functions[_raw(name)] = body

    def _assign(self, node: Node) -> None:
        target, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if target is None:
            return
        if target.type == "subscript":
            self.variables[_raw(target.named_children[0])] = Unresolved("is set item by item")
            return
        name, adds = _raw(target), any(child.type == "+=" for child in node.children)
        if value is not None and value.type == "array":
            words: list[Text] = [word for child in value.named_children for word in self._words(child)]
            known = self.variables.get(name, [])
            before = known if isinstance(known, list) else [known]
            self.variables[name] = [*before, *words] if adds else words
            return
        text: Text = "" if value is None else self._text(value)
        if adds:
            text = _joined([_as_text(self.variables.get(name, "")), text])
        self.variables[name] = text

    def _unset(self, node: Node) -> None:
        if "-f" not in (names := [_raw(child) for child in node.named_children]):
            self.variables |= dict.fromkeys(names, "")

    def _subshell(self, node: Node) -> None:
        """Follow `( ... )` or the commands of a pipeline, whose variables end with them."""
        before = dict(self.variables)
        for child in node.named_children:
            self.follow(child)
            if node.type == "pipeline":
                self.variables = dict(before)
        self.variables = before

    def _command(self, node: Node) -> None:
        words: list[Text] = []
        before = dict(self.variables)
        for child in node.named_children:
            if child.type == "variable_assignment":
                self._assign(child)
        environment, self.variables = self.variables, before
        for child in node.named_children:
            if child.type not in ("variable_assignment", "file_redirect", "herestring_redirect", "comment"):
                words += self._words(child)
        if not words:
            return
        words = [*ranks_of_environment(words[0], environment), *words]
        line, first = node.start_point[0] + 1 + self.first_line, words[0]
        self.follow_builtin(words, line)
        if isinstance(first, str) and first in self.functions and self.depth < MAX_DEPTH:
            self.depth += 1
            self.follow(self.functions[first])
            self.depth -= 1
            return
        inner = _script_within(words)
        if inner is not None:
            self.text(inner, first_line=line - 1)
        else:
            self.commands.append((words, line))

    def follow_builtin(self, words: Sequence[Text], line: int) -> None:
        """Set the variables that `read`, `getopts`, `printf -v` or `let` changes, and note the files of `source`."""
        if words[0] in ("source", ".") and len(words) > 1:
            name = "a file" if isinstance(words[1], Unresolved) else without_holes(words[1]).rpartition("/")[2]
            if name not in _ENVIRONMENTS:
                self.sourced[name] = line
        if words[0] in _SET_BY_THEIR_INPUT or (words[0] == "printf" and "-v" in words):
            names = [each for each in words[1:] if isinstance(each, str) and re.fullmatch(r"[A-Za-z_]\w*", each)]
            self.variables |= dict.fromkeys(names, Unresolved(f"is set by {words[0]}"))
        if words[0] == "let":
            for word in words[1:]:
                self.follow(_parser().parse(f"(({word}))".encode()).root_node)

    def _redirected(self, node: Node) -> None:
        body = node.child_by_field_name("body")
        heredoc = next((child for child in node.named_children if child.type == "heredoc_redirect"), None)
        if body is not None:
            self.follow(body)
        if heredoc is None:
            return
        content = next((child for child in heredoc.named_children if child.type == "heredoc_body"), None)
        written = next((child for child in heredoc.named_children if child.type == "file_redirect"), None)
        if content is None:
            return
        text = self._text(content)
        target = self._text(written.named_children[-1]) if written is not None and written.named_children else ""
        name = without_holes(target) if isinstance(target, str) and target else "a document"
        if isinstance(text, str):
            if is_script(text):
                self.text(text, first_line=content.start_point[0])
            else:
                self._document(f"{name} in {self.file}", text)

    def _document(self, name: str, text: str) -> None:
        """Keep a document that the script writes, if it is one of settings."""
        with contextlib.suppress(ValueError):
            self.documents.append(document_source(name, _with_holes(parse_settings(_quote_holes(text)))))

    def _if(self, node: Node) -> None:
        """Follow the branch whose condition is known to hold; all of them where a condition is not known."""
        branches: list[tuple[bool | None, list[Node]]] = []
        condition = node.child_by_field_name("condition")
        then = [
            child
            for child in node.named_children
            if child != condition and child.type not in ("elif_clause", "else_clause")
        ]
        branches.append((self._holds(condition), then))
        for child in node.named_children:
            if child.type == "elif_clause":
                branches.append((self._holds(child.named_children[0]), child.named_children[1:]))
            elif child.type == "else_clause":
                branches.append((True, child.named_children))
        possible: list[list[Node]] = []
        for holds, statements in branches:
            if holds is not False:
                possible.append(statements)
            if holds:
                break
        else:
            possible.append([])
        self._follow_any(possible)

    def _case(self, node: Node) -> None:
        value = node.child_by_field_name("value")
        text = Unresolved("has no value") if value is None else self._text(value)
        possible: list[list[Node]] = []
        for item in node.named_children:
            if item.type != "case_item":
                continue
            patterns = item.children_by_field_name("value")
            statements = [child for child in item.named_children if child not in patterns]
            if isinstance(text, Unresolved) or find_hole(text):
                possible.append(statements)
            elif any(fnmatchcase(text, _raw(pattern).strip("\"'")) for pattern in patterns):
                possible = [statements]
                break
        self._follow_any(possible or [[]])

    def _for(self, node: Node) -> None:
        """Follow the body of a loop once; what counts its passes is known where there is one pass."""
        start, body = node.child_by_field_name("initializer"), node.child_by_field_name("body")
        name = node.child_by_field_name("variable") if start is None else start.child_by_field_name("name")
        values = [word for child in node.children_by_field_name("value") for word in self._words(child)]
        if name is not None:
            self.variables[_raw(name)] = values[0] if len(values) == 1 else Unresolved("changes in a loop")
        if body is not None:
            self.follow(body)

    def _follow_any(self, possible: Sequence[Sequence[Node]]) -> None:
        """Follow each of several branches from the same state; variables that end differently are not known."""
        if len(possible) == 1:
            for statement in possible[0]:
                self.follow(statement)
            return
        before, ends = self.variables, []
        for statements in possible:
            self.variables = dict(before)
            for statement in statements:
                self.follow(statement)
            ends.append(self.variables)
        merged = {name: _merged_values([end.get(name) for end in ends]) for end in ends for name in end}
        self.variables = {name: value for name, value in merged.items() if value is not None}

    def _succeeds(self, node: Node) -> bool | None:
        """Follow `a && b` or `a || b`, and return whether it succeeds, or None where the script does not say.

        The second side is followed where the first one is known to let it run; where that is not known, variables that
        it changes are not known either.
        """
        if node.type != "list":
            holds = self._holds(node)
            self.follow(node)
            return holds
        left, right = [each for each in node.named_children if each.type != "comment"]
        holds = self._succeeds(left)
        if holds is None:
            self._follow_any([[right], []])
            return None
        return self._succeeds(right) if holds == (_operator(node) == "&&") else holds

    def _holds(self, node: Node | None) -> bool | None:
        """Tell whether a test holds, or None where the script does not say."""
        if node is None:
            return None
        inner, operator = node.named_children, _operator(node)
        if node.type in ("test_command", "parenthesized_expression") and len(inner) == 1:
            return self._holds(inner[0])
        if node.type == "negated_command" or (node.type == "unary_expression" and operator == "!"):
            holds = self._holds(inner[-1])
            return None if holds is None else not holds
        if node.type == "unary_expression" and operator in ("-z", "-n"):
            text = self._text(inner[-1])
            return None if find_hole(text) else (text == "") == (operator == "-z")
        if node.type in ("binary_expression", "list") and len(inner) >= 2:
            is_joined = operator in ("&&", "||")
            return self._both(node, any_of=operator == "||") if is_joined else self._compare(node, operator)
        return self.outcome(node)

    def outcome(self, node: Node) -> bool | None:
        """Tell whether an assignment, `((...))` or a command succeeds, or None where the script does not say."""
        inner = node.named_children
        if node.type in ("variable_assignment", "declaration_command"):
            return None if "$(" in _raw(node) or "`" in _raw(node) else True
        if _is_arithmetic(node):
            changes = re.search(r"\+\+|--|(?<![=!<>])=(?!=)", _raw(node))
            number = None if changes or len(inner) != 1 else self._number(inner[0])
            return None if number is None else number != 0
        if node.type == "command":
            words = self._words(inner[0])
            return words[0] in _SUCCESSFUL or (False if words[0] == "false" else None)
        return None

    def _both(self, node: Node, *, any_of: bool) -> bool | None:
        sides = [self._holds(node.named_children[0]), self._holds(node.named_children[-1])]
        if any_of in sides:
            return any_of
        return None if None in sides else not any_of

    def _compare(self, node: Node, operator: str) -> bool | None:
        left, right = self._text(node.named_children[0]), self._text(node.named_children[-1])
        if isinstance(left, Unresolved) or isinstance(right, Unresolved) or find_hole(left) or find_hole(right):
            return None
        if operator in ("=", "=="):
            return fnmatchcase(left, right)
        if operator == "!=":
            return not fnmatchcase(left, right)
        compare = {"-eq": "__eq__", "-ne": "__ne__", "-gt": "__gt__", "-ge": "__ge__", "-lt": "__lt__", "-le": "__le__"}
        method = compare.get(operator, {"<": "__lt__", ">": "__gt__", "<=": "__le__", ">=": "__ge__"}.get(operator, ""))
        try:
            return bool(getattr(int(left), method)(int(right)))
        except (ValueError, AttributeError):
            return None

    def _words(self, node: Node) -> list[Text]:
        """Expand a word into those that the shell makes of it."""
        if node.type == "comment":
            return []
        if node.type == "command_name":
            return [word for child in node.named_children for word in self._words(child)] or [_raw(node)]
        if node.type == "string" and [child.type for child in node.named_children] == ["expansion"]:
            value = self._value(node.named_children[0])
            return value if isinstance(value, list) else [value]
        if node.type in ("simple_expansion", "expansion"):
            value = self._value(node)
            words = value if isinstance(value, list) else [value]
            return [each for word in words for each in (word.split() if isinstance(word, str) else [word])]
        return [self._text(node)]

    def _text(self, node: Node) -> Text:
        """Expand a word into one text."""
        handlers: dict[str, Callable[[Node], Text]] = {
            "raw_string": lambda node: _raw(node)[1:-1],
            "ansi_c_string": lambda node: _raw(node)[2:-1],
            "string": self._quoted,
            "heredoc_body": self._quoted,
            "concatenation": lambda node: _joined([self._text(child) for child in node.named_children]),
            "simple_expansion": lambda node: _as_text(self._value(node)),
            "expansion": lambda node: _as_text(self._value(node)),
            "arithmetic_expansion": self._arithmetic,
            "command_substitution": lambda node: Unresolved(f"is the output of {_raw(node)[:60]}"),
            "process_substitution": lambda node: Unresolved(f"is the output of {_raw(node)[:60]}"),
            "array": lambda node: Unresolved(f"is {_raw(node)[:60]}"),
        }
        handler = handlers.get(node.type)
        if handler is not None:
            return handler(node)
        return re.sub(r"\\(\n)?(.)?", lambda found: found[2] or "", _raw(node), flags=re.DOTALL)

    def _quoted(self, node: Node) -> Text:
        """Expand what stands between double quotes, or in a here-document; text between its expansions included."""
        text, parts, place = node.text or b"", list[Text](), 0
        start, end = node.start_byte, len(text)
        if node.type == "string":
            place, end = 1, len(text) - 1
        for child in node.named_children:
            if child.type in ("string_content", "heredoc_content"):
                continue
            before = text[place : child.start_byte - start].decode(errors="replace") + _leading(child)
            parts += [
                *(self._left_over(before) if node.type == "heredoc_body" else [_unescaped(before)]),
                self._text(child),
            ]
            place = child.end_byte - start
        rest = text[place:end].decode(errors="replace")
        return _joined([*parts, *(self._left_over(rest) if node.type == "heredoc_body" else [_unescaped(rest)])])

    def _left_over(self, text: str) -> list[Text]:
        """Expand the variables of a here-document that the parser leaves in its text, such as `$1`."""
        parts: list[Text] = []
        for number, part in enumerate(re.split(r"(?<!\\)\$(\w+)", text)):
            where = "an argument of the script" if part.isdecimal() else "not set in the script"
            unset = Unresolved(f"is ${part}, {where}")
            parts.append(_as_text(self.variables.get(part, unset)) if number % 2 else _unescaped(part))
        return parts

    def _value(self, node: Node) -> Text | list[Text]:
        """Return the value of `$X`, `${X}`, `${X:-default}` or `${X[@]}`."""
        name = next((child for child in node.named_children if child.type != "special_variable_name"), None)
        if name is None:
            return Unresolved(f"is {_raw(node)}, an argument of the script")
        array = name.type == "subscript"
        variable = _raw(name.named_children[0] if array else name)
        raw = _raw(node)[len(_leading(node)) :]
        if array and not re.fullmatch(r"\$\{\w+\[[@*]\]\}", raw):
            return Unresolved(f"is {raw[:60]}")
        value = self.variables.get(variable)
        plain = node.type == "simple_expansion" or re.fullmatch(r"\$\{\w+(\[[@*]\])?\}", raw)
        if plain:
            if value is None:
                where = "an argument of the script" if variable.isdecimal() else "not set in the script"
                return Unresolved(f"is ${variable}, {where}")
            return value
        default = re.match(r"\$\{\w+(:?)([-=])", raw)
        if default is None:
            return Unresolved(f"is {raw[:60]}")
        if value is None or (default[1] and value == ""):
            following = [child for child in node.named_children if child != name]
            value = _joined([self._text(child) for child in following]) if following else ""
            if default[2] == "=":
                self.variables[variable] = value
        return value

    def _arithmetic(self, node: Node) -> Text:
        value = self._number(node)
        return Unresolved(f"is {_raw(node)[:60]}, which the script does not say") if value is None else str(value)

    def _number(self, node: Node) -> int | None:
        """Compute an integer expression and set what it assigns; None where a variable in it is not known."""
        inner, operator = node.named_children, _operator(node)
        if _is_arithmetic(node):
            return [self._number(child) for child in inner][-1]
        changes = re.fullmatch(r"(?P<operator>[-+*/%]?)=|\+\+|--", operator)
        if changes is not None and inner and inner[0].type in ("variable_name", "word"):
            right = self._number(inner[-1]) if len(inner) > 1 else 1
            left = right if operator == "=" else self._number(inner[0])
            value = (
                None if left is None or right is None else _calculate(changes["operator"] or operator[0], left, right)
            )
            unknown = Unresolved(f"is set by (({_raw(node)[:60]})), which the script does not say")
            self.variables[_raw(inner[0])] = unknown if value is None else str(value)
            return left if node.type == "postfix_expression" else value
        if node.type in ("arithmetic_expansion", "parenthesized_expression"):
            return self._number(inner[0]) if len(inner) == 1 else None
        if node.type == "binary_expression":
            left, right = self._number(inner[0]), self._number(inner[-1])
            return None if left is None or right is None else _calculate(operator, left, right)
        if node.type == "variable_name":
            text = _as_text(self.variables.get(_raw(node), Unresolved("is not set")))
        elif node.type in ("simple_expansion", "expansion", "string", "number", "word"):
            text = self._text(node)
        else:
            return None
        return int(text) if isinstance(text, str) and text.strip().isdecimal() else None


def _quote_holes(text: str) -> str:
    """Quote a hole that stands as a value in JSON, so that the rest is read."""
    return re.sub("(?<=[:,\\[])(\\s*)(\ue000[0-9a-f]*\ue001)", r'\1"\2"', text)


def _with_holes(document: Any) -> Any:
    """Return a document with each text that has a hole as a value that the script does not say."""
    if isinstance(document, Mapping):
        return {key: _with_holes(value) for key, value in document.items()}
    return find_hole(document) or document


def _is_arithmetic(node: Node) -> bool:
    """Whether a statement is `((...))`, which the parser calls by the same name as `{ ...; }`."""
    return node.type == "compound_statement" and bool(node.named_children) and node.children[0].type == "(("


def _operator(node: Node) -> str:
    """Return the operator of an expression: what stands beside its operands."""
    return next((_raw(each) for each in node.children if not each.is_named or "operator" in each.type), "")


def _calculate(operator: str, left: int, right: int) -> int | None:
    if operator in ("/", "%") and right == 0:
        return None
    results = {"=": right, "+": left + right, "-": left - right, "*": left * right}
    results |= {"==": int(left == right), "!=": int(left != right), "<": int(left < right), ">": int(left > right)}
    results |= {"<=": int(left <= right), ">=": int(left >= right)}
    if operator in ("/", "%"):
        results |= {"/": left // right, "%": left % right}
    return results.get(operator)


def _script_within(words: Sequence[Text]) -> str | None:
    """Return the script that `eval`, `bash -c` or `srun ... bash -c` would run of a string, or None."""
    if words[0] == "eval":
        text = _joined([part for word in words[1:] for part in (word, " ")])
        return text if isinstance(text, str) else None
    for place, word in enumerate(words[:-1]):
        if isinstance(word, str) and re.fullmatch(r"(.*/)?(ba|z|da)?sh", word):
            flags = iter(words[place + 1 :])
            for flag in flags:
                if not isinstance(flag, str) or not flag.startswith("-"):
                    break
                if flag.endswith("c"):
                    script = next(flags, None)
                    return script if isinstance(script, str) else None
    return None


def _raw(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")


def _leading(node: Node) -> str:
    """Return the white space that the parser counts to an expansion within a string."""
    found = re.match(r"(\s|\\\n)*", _raw(node))
    return found[0] if found is not None else ""


def _unescaped(text: str) -> str:
    r"""Undo what a backslash does within double quotes.

    >>> _unescaped("a \\\n b \\$x")
    'a  b $x'
    """
    return re.sub(r"\\([\n\"\\$`])", lambda found: "" if found[1] == "\n" else found[1], text)


def _joined(parts: Sequence[Text]) -> Text:
    """Join the parts of a text; one that is not known stands alone, or as a hole among others."""
    parts = [part for part in parts if part != ""]
    if len(parts) == 1:
        return parts[0]
    return "".join(with_hole(part) if isinstance(part, Unresolved) else part for part in parts)


def _merged_values(values: Sequence[Text | list[Text] | None]) -> Text | list[Text] | None:
    """Return what a variable is after several branches: what they begin with alike, then a hole where they differ.

    Flags that some of the branches have are kept, each with a value that is not known.
    """
    first = values[0]
    if all(value == first for value in values):
        return first
    if any(isinstance(value, Unresolved) for value in values):
        return DIFFERS
    lists = [value if isinstance(value, list) else str(value or "").split() for value in values]
    words = [
        same[0] for same in takewhile(lambda same: all(each == same[0] for each in same), zip(*lists, strict=False))
    ]
    tails = (word for each in lists for word in each[len(words) :])
    flags = dict.fromkeys(
        word.partition("=")[0] for word in tails if isinstance(word, str) and re.match("--[a-z]", word)
    )
    if not words and not flags:
        return DIFFERS
    merged = [*words, DIFFERS, *(each for flag in flags for each in (flag, DIFFERS))]
    if any(isinstance(value, list) for value in values):
        return merged
    return _joined([part for word in merged for part in (word, " ")])


def _as_text(value: Text | list[Text]) -> Text:
    """Join the words of an array, as `$ARRAY` in a string does with `[*]`."""
    if not isinstance(value, list):
        return value
    return _joined([part for word in value for part in (word, " ")][:-1])
