"""Reads Rust sources for figures about the tree: comments, tests, modules, imports and functions, without a compiler."""
import os, re

# Comments and literals, in the order in which they are tried at each position.
LITERAL = re.compile(r"""
    (?P<line>//[^\n]*) | (?P<block>/\*) | (?P<raw>\bb?r(?P<hashes>\#*)") | (?P<text>b?"(?:\\.|[^"\\])*") | (?P<char>b?'(?:\\[^\n]{1,9}?|[^'\\\n])')
""", re.VERBOSE | re.DOTALL)
BLOCK_EDGE = re.compile(r"/\*|\*/")


def blank(text):
    """Replaces every character except line ends by a space, so that positions and lines stay."""
    return re.sub(r"[^\n]", " ", text)


def mask(text, literals=True):
    """Blanks the comments of a text, and the insides of its literals unless `literals` is false."""
    parts, at = [], 0
    while found := LITERAL.search(text, at):
        begin, end = found.span()
        if found["block"]:
            depth, end = 1, begin + 2
            while depth and (edge := BLOCK_EDGE.search(text, end)):
                depth, end = depth + (1 if edge[0] == "/*" else -1), edge.end()
        elif found["raw"]:
            close = text.find('"' + found["hashes"], end)
            end = len(text) if close < 0 else close + 1 + len(found["hashes"])
        comment = found["line"] or found["block"]
        if comment:
            inside = blank(text[begin:end])
        else:
            inside = '"' + blank(text[begin + 1:end - 1]) + '"' if literals else text[begin:end]
        parts += [text[at:begin], inside]
        at = end
    return "".join(parts) + text[at:]


def item_end(masked, at):
    """Returns the position after the item that begins at `at`: after its closing brace or its semicolon."""
    depth = 0
    for found in re.finditer(r"[{}()\[\];]", masked[at:]):
        sign = found[0]
        if sign in "{([":
            depth += 1
        elif sign in "})]":
            depth -= 1
            if depth == 0 and sign == "}":
                return at + found.end()
        elif depth == 0:
            return at + found.end()
    return len(masked)


ATTRIBUTE = re.compile(r"#!?\[")
TEST_ATTRIBUTE = re.compile(r"#\[cfg\((?:test|all\(test\b|any\(test\b)")
# Begins with a word, not with blanks: blanked comments are long runs of blanks, in which a search would be quadratic.
MODULE = re.compile(r"\b(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*([;{])")
BLANKS = re.compile(r"\s*")
PATH = re.compile(r'#\[path\s*=\s*"([^"]+)"\]')


def skip_attributes(masked, at):
    """Returns the position of the item that the attributes at `at` belong to."""
    while found := re.compile(r"\s*(?=#\[)").match(masked, at):
        at, depth = found.end() + 2, 1
        while depth:
            depth += {"[": 1, "]": -1}.get(masked[at], 0)
            at += 1
    return at


def test_items(text, masked):
    """Yields begin and end of each item that is compiled for tests only, and the module file that it declares (name and path), if any."""
    at = 0
    while found := TEST_ATTRIBUTE.search(masked, at):
        item = skip_attributes(masked, found.start())
        end = item_end(masked, item)
        module = MODULE.match(masked, BLANKS.match(masked, item).end())
        path = PATH.search(text, found.start(), item)
        declared = (module[1], path and path[1]) if module and module[2] == ";" else None
        yield found.start(), end, declared
        at = end


class Source:
    """A file: its text, also with comments and literals blanked, and with test items blanked."""

    def __init__(self, path, text):
        self.path, self.text, self.masked = path, text, mask(text)
        self.test_modules, shipped, bare = [], text, self.masked
        for begin, end, declared in test_items(text, self.masked):
            shipped = shipped[:begin] + blank(shipped[begin:end]) + shipped[end:]
            bare = bare[:begin] + blank(bare[begin:end]) + bare[end:]
            if declared:
                self.test_modules.append(declared)
        # `shipped` is the text without test items, `bare` also without comments and literals.
        self.shipped, self.bare = shipped, bare
        self.test_lines = sum(text.count("\n", b, e) + 1 for b, e, _ in test_items(text, self.masked))

    def lines(self):
        """Lines without tests, comments and blank lines included."""
        return self.text.count("\n") - self.test_lines

    def code_lines(self):
        """Lines without tests, comments and blank lines."""
        return sum(1 for line in mask(self.shipped, literals=False).splitlines() if line.strip())

    def functions(self):
        """Yields name, first line and number of lines of each function with a body."""
        for found in re.finditer(r"\bfn\s+(\w+)", self.bare):
            end = item_end(self.bare, found.start())
            if self.bare[end - 1] == "}":
                lines = self.bare.count("\n", found.start(), end) + 1
                yield found[1], self.bare.count("\n", 0, found.start()) + 1, lines


def module_file(files, folder, name, path=None):
    """Returns the file of a module that is declared in `folder`."""
    choices = [path] if path else [f"{name}.rs", f"{name}/mod.rs"]
    return next((f for f in (os.path.normpath(f"{folder}/{c}") for c in choices) if f in files), None)


def own_folder(path):
    """Returns the folder with the modules that a file declares."""
    folder, name = os.path.split(path)
    return folder if name in ("mod.rs", "lib.rs", "main.rs") else f"{folder}/{name[:-3]}"


def without_tests(sources):
    """Returns the files that the product is compiled from, without files that only tests declare."""
    tests = {p for p in sources if re.search(r"(^|/)(tests|fuzz|integration)/|(^|/)(tests|\w+_tests)\.rs$", p)}
    waiting = list(sources)
    for path in waiting:
        source = sources[path]
        declared = list(source.test_modules)
        if path in tests:
            declared += [(m[1], None) for m in MODULE.finditer(source.masked) if m[2] == ";"]
        for name, other in declared:
            folder = os.path.dirname(path) if other else own_folder(path)
            file = module_file(sources, folder, name, other)
            if file and file not in tests:
                tests.add(file)
                waiting.append(file)
    return {p: s for p, s in sources.items() if p not in tests}
