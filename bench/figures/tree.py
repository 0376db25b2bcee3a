"""Figures about the source tree of any revision: sizes without tests, circles of imports, long functions and files."""
import hashlib, io, json, os, re, subprocess, sys, tarfile, tempfile

from .imports import Crate, circles
from .machine import ROOT, read, write
from .rust import Source, without_tests

LONG_FUNCTION, LONG_FILE, LARGE_CIRCLE = 60, 500, 8
# Replaced by later issues, see integration/prose/exceptions.tsv.
REPLACED_LATER = ("src/page/", "crates/api/src/page/")
# Pages that are not counted as the manual: what a reader looks up, and how something works inside.
REFERENCE = ("config/", "examples/", "monitors/", "reference/", "api.md", "cli.md", "glossary.md", "transports.md",
             "operations/alerts.md", "operations/limits.md", "operations/metrics.md")
INTERNALS = ("decisions/", "internals/", "performance.md", "threat-model.md")


def unpack(revision, folder):
    """Writes the files of a revision into a folder, or those of the work tree if there is none."""
    if revision:
        archive = subprocess.check_output(["git", "archive", revision], cwd=ROOT)
        tarfile.open(fileobj=io.BytesIO(archive)).extractall(folder, filter="data")
        return
    names = subprocess.check_output(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, text=True).splitlines()
    for name in filter(lambda n: os.path.isfile(os.path.join(ROOT, n)), names):
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        with open(os.path.join(ROOT, name), "rb") as file, open(os.path.join(folder, name), "wb") as copy:
            copy.write(file.read())


def sources(folder):
    """Returns the Rust files of the product, without files that are marked as generated."""
    found = {}
    for place, folders, names in os.walk(folder):
        folders[:] = [f for f in folders if f not in ("target", ".git", ".parts")]
        for name in filter(lambda n: n.endswith(".rs"), names):
            path = os.path.relpath(os.path.join(place, name), folder)
            text = read(os.path.join(folder, path))
            if "@generated" not in text[:200]:
                found[path] = Source(path, text)
    return without_tests(found)


def code_lines(files):
    return sum(source.code_lines() for source in files.values())


def crate_roots(folder, files):
    """Yields the folder of each crate with its root file."""
    for place, _, names in os.walk(folder):
        crate = os.path.relpath(place, folder)
        if "Cargo.toml" in names and "/target" not in place:
            root = next((f for f in (os.path.normpath(f"{crate}/src/{n}.rs") for n in ("lib", "main")) if f in files), None)
            if root:
                yield os.path.normpath(crate), root


def crate_lines(files, roots):
    """Counts the lines of each crate without tests. A file belongs to the innermost crate that contains it."""
    lines = dict.fromkeys((crate for crate, _ in roots), 0)
    for path, source in files.items():
        holders = [c for c in lines if c == "." and path.startswith("src/") or path.startswith(c + "/")]
        if holders:
            lines[max(holders, key=len)] += source.lines()
    return lines


def glossary_rows(folder):
    """Counts the rows of all tables of the glossary, without their heads."""
    path = os.path.join(folder, "docs", "glossary.md")
    if not os.path.exists(path):
        return 0
    rows = [line for line in read(path).splitlines() if line.startswith("|")]
    heads = sum(1 for line in rows if re.fullmatch(r"[|\s:-]+", line))
    return len(rows) - 2 * heads


def manual(folder):
    """Returns the words of the manual without reference and internals, and the fenced blocks of all pages by their language."""
    docs = os.path.join(folder, "docs")
    found = [os.path.join(place, name) for place, _, names in os.walk(docs) for name in names if name.endswith(".md")]
    pages = {os.path.relpath(path, docs): read(path) for path in found} | {"../README.md": read(os.path.join(folder, "README.md"))}
    words = sum(len(text.split()) for page, text in pages.items() if not page.startswith(REFERENCE + INTERNALS))
    blocks = dict.fromkeys(("console", "text", "other"), 0)
    for language in re.findall(r"^ *```(.*)\n(?:.*\n)*? *```$", "\n".join(pages.values()), re.M):
        blocks[language if language in blocks else "other"] += 1
    return words, blocks


def binary():
    path = os.path.join(ROOT, "target", "dist", "fairway")
    return f"{os.path.getsize(path) / 1e6:.1f} MB" if os.path.exists(path) else "not built (cargo build --profile dist)"


def prose():
    """Returns the counts of the prose lint, which is a test: errors and warnings."""
    command = ["cargo", "test", "--quiet", "--package", "fairway-integration", "--test", "prose", "--", "--nocapture", "counts"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return next((line.split(":", 1)[1].strip() for line in done.stdout.splitlines() if line.startswith("prose:")), "the lint failed")


def circles_of(files, roots):
    """Returns the circles of imports of each crate."""
    sys.setrecursionlimit(20_000)
    return {crate: circles(Crate(files, root).arrows()) for crate, root in roots}


def large_circles(folder):
    """Returns a line for each circle of a source tree that has too many files."""
    files = sources(folder)
    found = circles_of(files, sorted(crate_roots(folder, files)))
    return [f"circle of {len(c)} in {crate}: {' '.join(c)}" for crate, of in found.items() for c in of if len(c) > LARGE_CIRCLE]


def measure(revision, folder):
    """Returns the figures of a revision, and their details."""
    unpack(revision, folder)
    files = sources(folder)
    roots = sorted(crate_roots(folder, files))
    lines = crate_lines(files, roots)
    found = circles_of(files, roots)
    ours = {path: source for path, source in files.items() if not path.startswith(REPLACED_LATER)}
    functions = [(path, line, name, length) for path, source in ours.items() for name, line, length in source.functions() if length > LONG_FUNCTION]
    long_files = [(path, source.text.count("\n")) for path, source in ours.items() if source.text.count("\n") > LONG_FILE]
    as_written = code_lines(files)
    # The same settings for every revision, so that denser lines do not count as fewer.
    write(os.path.join(folder, "rustfmt.toml"), 'edition = "2024"\nmax_width = 120\nuse_small_heuristics = "Default"\n')
    subprocess.run(["cargo", "fmt", "--all"], cwd=folder, check=True)
    words, blocks = manual(folder)
    by_size = sorted(lines.items(), key=lambda l: -l[1])
    large = [c for of in found.values() for c in of if len(c) > LARGE_CIRCLE]
    figures = [
        ("lines of src/ without tests", f"{lines['.']:,}", "≤ 8,000"),
        ("largest circle of files; circles of more than 8", f"{max((len(c) for of in found.values() for c in of), default=0)}; {len(large)}", "≤ 8; 0"),
        ("largest crates without tests", ", ".join(f"{name} {size:,}" for name, size in by_size[:3]), "zones ≤ 13,000, others ≤ 10,000"),
        ("code lines without generated ones, default heuristics of rustfmt", f"{code_lines(sources(folder)):,}", "≤ 58,000"),
        ("code lines without generated ones, as written", f"{as_written:,}", ""),
        ("functions over 60 lines; files over 500", f"{len(functions)}; {len(long_files)}", "0; ≤ 3"),
        ("glossary rows", str(glossary_rows(folder)), "≤ 60"),
        ("words of the manual outside reference and internals", f"{words:,}", "≤ 30,000"),
        ("fenced blocks of the manual: console; text; others", "; ".join(map(str, blocks.values())), ""),
    ]
    if not revision:
        figures += [("words of the prose lint's list", prose(), "0"), ("shipped binary", binary(), "≤ 35 MB")]
    details = [f"circle of {len(c)} in {crate}: {' '.join(c)}" for crate, of in found.items() for c in of if len(c) > LARGE_CIRCLE]
    details += [f"{path}:{line}: fn {name}: {length} lines" for path, line, name, length in sorted(functions)]
    details += [f"{path}: {length} lines" for path, length in sorted(long_files)]
    details += [f"crate {name}: {size:,} lines without tests" for name, size in by_size]
    return figures, details


def cached(revision):
    """Measures the work tree, or a revision unless an earlier run has measured it with the same program."""
    kept = None
    if revision:
        commit = subprocess.check_output(["git", "rev-parse", f"{revision}^{{commit}}"], cwd=ROOT, text=True).strip()
        program = "".join(read(os.path.join(os.path.dirname(__file__), f"{name}.py")) for name in ("tree", "rust", "imports"))
        kept = os.path.join(ROOT, "target", "tree", f"{commit}-{hashlib.sha256(program.encode()).hexdigest()[:12]}.json")
        if os.path.exists(kept):
            return json.loads(read(kept))
    with tempfile.TemporaryDirectory(prefix="fairway-tree-") as folder:
        found = measure(revision, folder)
    if kept:
        os.makedirs(os.path.dirname(kept), exist_ok=True)
        write(kept, json.dumps(found))
    return found


def print_table(revisions):
    """Prints the figures of the revisions in columns, then the details of the last one. None stands for the work tree."""
    columns = []
    for revision in revisions:
        columns.append(cached(revision))
    last, details = columns[-1]
    print("| figure | " + " | ".join(revision or "work tree" for revision in revisions) + " | must reach |")
    print("|---|" + "---|" * (len(revisions) + 1))
    others = [dict((name, value) for name, value, _ in figures) for figures, _ in columns[:-1]]
    for name, value, goal in last:
        print("| " + " | ".join([name, *(other.get(name, "-") for other in others), value, goal]) + " |")
    print("\n" + "\n".join(details))
