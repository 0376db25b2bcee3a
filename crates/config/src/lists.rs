//! The long lists of a configuration, read without a tree: what says where a value stands takes ten times the time and
//! memory of the value, and is wanted for faults alone.
//!
//! A file is cut at its sections. What is no long list is read as ever, in its place; long lists go straight into the
//! file's structs (`lists_wire`). Whatever is not known there, or might be at fault, leaves everything to the reader of
//! YAML as a whole.

use std::sync::Arc;

use super::{
    join::join,
    lists_wire,
    tree::{Data, Node, Tree},
    v1, yaml,
};

/// Reads a configuration with long lists; none if it has none, or if it is not plainly sound.
pub(super) fn read<'a>(texts: &'a [Option<String>], names: &'a [Arc<str>]) -> Option<(v1::Config, Tree<'a>)> {
    let mut lists = Lists::default();
    let rests = texts.iter().map(|text| lists.cut(text.as_ref()?)).collect::<Option<Vec<_>>>()?;
    if rests.iter().all(|pieces| pieces.len() == 1) {
        return None;
    }
    let trees =
        rests.iter().zip(texts).zip(0..).map(|((pieces, text), file)| tree(text.as_ref()?, pieces, file, names));
    let trees = trees.collect::<Option<Vec<_>>>()?.into_iter().flatten();
    let mut faults = Vec::new();
    let tree = join(trees.collect(), names, &mut faults);
    let mut config: v1::Config = tree.read().filter(|_| faults.is_empty())?;
    let Lists { clusters, pools, names: steered } = lists;
    let fits = put(&mut config.clusters, clusters) && put(&mut config.pools, pools) && put(&mut config.names, steered);
    fits.then(|| (config, Tree::without_lists(tree, texts, names)))
}

/// Elements are numbered in the order of the files: a list is long everywhere, or nowhere.
fn put<T>(into: &mut Vec<T>, list: Vec<T>) -> bool {
    let fits = into.is_empty() || list.is_empty();
    if into.is_empty() {
        *into = list;
    }
    fits
}

/// The elements of long lists, of all files.
#[derive(Default)]
struct Lists {
    clusters: Vec<v1::Cluster>,
    pools: Vec<v1::Pool>,
    names: Vec<v1::SteeredName>,
}

impl Lists {
    /// Takes the long lists out of a file; returns the rest in pieces: what stands before, between and after them.
    fn cut<'t>(&mut self, text: &'t str) -> Option<Vec<Piece<'t>>> {
        let mut pieces = Vec::new();
        let (mut begin, mut at) = (0, 0);
        while let Some(line) = text[at..].split_inclusive('\n').next() {
            // Documents and directives: several in one file are a fault.
            if line.starts_with("---") || line.starts_with("...") || line.starts_with('%') {
                return None;
            }
            let body = at + line.len();
            let section = line.split(" #").next().and_then(|line| line.trim_end().strip_suffix(':'));
            let list = LONG.iter().find(|long| section == Some(long));
            let begins = || content(&text[body..]).is_some_and(|line| line.starts_with('-'));
            let Some(list) = list.filter(|_| begins()) else {
                at = body;
                continue;
            };
            pieces.push(Piece { begin, text: &text[begin..at], list: Some(list) });
            begin = body + self.take(list, &text[body..])?;
            at = begin;
        }
        pieces.push(Piece { begin, text: &text[begin..], list: None });
        Some(pieces)
    }

    /// Reads a list; returns its length in octets.
    fn take(&mut self, list: &str, text: &str) -> Option<usize> {
        match list {
            "clusters" => lists_wire::read(text, &mut self.clusters),
            "pools" => lists_wire::read(text, &mut self.pools),
            _ => lists_wire::read(text, &mut self.names),
        }
        .ok()
    }
}

/// The content of the first line that has any.
fn content(text: &str) -> Option<&str> {
    text.lines().map(str::trim_start).find(|line| !line.is_empty() && !line.starts_with('#'))
}

/// A part of a file: whole sections.
struct Piece<'t> {
    /// Where it begins in the file.
    begin: usize,
    text: &'t str,
    /// The long list that follows it.
    list: Option<&'static str>,
}

/// The tree of a file without its long lists, from its pieces; `Some(None)` if nothing else is in it. None at all if a
/// section stands in it twice, or if it is no set of sections.
fn tree(whole: &str, pieces: &[Piece<'_>], file: u16, names: &[Arc<str>]) -> Option<Option<Node>> {
    let lists: Vec<&str> = pieces.iter().filter_map(|piece| piece.list).collect();
    if lists.iter().enumerate().any(|(at, list)| lists[..at].contains(list)) {
        return None;
    }
    let mut tree: Option<Node> = None;
    for Piece { begin, text, .. } in pieces {
        let Some(content) = content(text) else { continue };
        // A map in brackets is all of its file.
        if content.starts_with('{') {
            return None;
        }
        // Each part is whole YAML by itself: nothing in it, no quote nor bracket, goes on behind a list. Empty lines
        // keep its places.
        let lines = whole[..*begin].bytes().filter(|octet| *octet == b'\n').count();
        let Some(part) = yaml::parse(&("\n".repeat(lines) + text), file, names).ok()? else { continue };
        let Data::Map(more) = part.data else { return None };
        let root = tree.get_or_insert(Node { data: Data::Map(Vec::new()), ..part });
        let Data::Map(entries) = &mut root.data else { return None };
        for new in more {
            if lists.contains(&new.key.as_str()) || entries.iter().any(|known| known.key == new.key) {
                return None;
            }
            entries.push(new);
        }
    }
    Some(tree)
}

/// Sections that are long lists, where they are lists in block style.
const LONG: [&str; 3] = ["clusters", "pools", "names"];
