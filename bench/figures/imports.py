"""Imports between the files of a crate, and their circles."""
import re

from .rust import MODULE, module_file, own_folder

USE = re.compile(r"\buse\s+([^;]+);")
INLINE_PATH = re.compile(r"\b(?:crate|super|self)(?:\s*::\s*\w+)+")


def use_paths(tree, prefix=()):
    """Returns the paths of a `use` tree, each with the imported name; `*` stands for all names."""
    head, brace, rest = tree.partition("{")
    segments = prefix + tuple(s.strip() for s in head.split("::") if s.strip())
    if not brace:
        path, _, name = head.partition(" as ")
        segments = prefix + tuple(s.strip() for s in path.split("::") if s.strip())
        if segments and segments[-1] == "self" and len(segments) > 1:
            segments = segments[:-1]
        return [(segments, name.strip() or segments[-1])] if segments else []
    found, depth, part = [], 0, ""
    for sign in rest[:rest.rindex("}")] + ",":
        if sign == "," and depth == 0:
            found += use_paths(part.strip(), segments) if part.strip() else []
            part = ""
            continue
        depth += {"{": 1, "}": -1}.get(sign, 0)
        part += sign
    return found


class Crate:
    """The modules of a crate: the file of each path of names, and the imports of each."""

    def __init__(self, sources, root):
        self.files, self.uses = {}, {}
        self.add(sources, (), root)

    def add(self, sources, module, path):
        if module in self.files:
            return
        self.files[module] = path
        bare = sources[path].bare
        self.uses[module] = [found for tree in USE.findall(bare) for found in use_paths(" ".join(tree.split()))]
        self.uses[module] += [(tuple(re.split(r"\s*::\s*", p)), None) for p in INLINE_PATH.findall(USE.sub("", bare))]
        for found in MODULE.finditer(bare):
            if found[2] == ";" and (file := module_file(sources, own_folder(path) if module else path.rsplit("/", 1)[0], found[1])):
                self.add(sources, module + (found[1],), file)

    def resolve(self, module, path, depth=0):
        """Returns the module that defines the item of a path, through re-exports; None for other crates."""
        first, *rest = path
        if first == "crate":
            at = ()
        elif first == "self":
            at = module
        elif first == "super":
            at = module[:-1]
        elif module + (first,) in self.files:
            at = module + (first,)
        else:
            return None
        for number, name in enumerate(rest):
            if name == "super":
                at = at[:-1]
            elif at + (name,) in self.files:
                at += (name,)
            else:
                return self.reexported(at, tuple(rest[number:]), depth) or at
        return at

    def reexported(self, module, names, depth):
        """Returns the module of a name that a module re-exports."""
        if depth > 8:
            return None
        for path, name in self.uses[module]:
            if name == names[0] and path[-1] != "*":
                return self.resolve(module, path + names[1:], depth + 1)
        return None

    def arrows(self):
        """Returns the imports from file to file, without those between a module and its submodules."""
        found = {}
        for module, uses in self.uses.items():
            for path, _ in uses:
                target = self.resolve(module, path if path[-1] != "*" else path[:-1] or ("self",))
                if target is None:
                    continue
                shorter = min(len(module), len(target))
                if module[:shorter] != target[:shorter]:
                    found.setdefault(self.files[module], set()).add(self.files[target])
        return found


def circles(arrows):
    """Returns the strongly connected components of at least two files, the largest first (Tarjan)."""
    number, low, stack, on_stack, found = {}, {}, [], set(), []

    def visit(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        on_stack.add(node)
        for other in arrows.get(node, ()):
            if other not in number:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in on_stack:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            circle = []
            while not circle or circle[-1] != node:
                circle.append(stack.pop())
                on_stack.discard(circle[-1])
            if len(circle) > 1:
                found.append(sorted(circle))

    for node in sorted(arrows):
        if node not in number:
            visit(node)
    return sorted(found, key=len, reverse=True)
