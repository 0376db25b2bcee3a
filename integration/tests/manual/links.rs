//! Links of the Markdown files lead to files and headings that exist.

use std::collections::BTreeSet;

use fairway_integration::{
    real::root,
    tree::{TreeFile, files},
};

/// Returns the lines outside of fenced blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        !is_fenced && !is_fence
    })
}

/// Returns the anchors that GitHub gives to the headings of a page.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text)
        .filter_map(|(_, line)| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    let kept = |c: char| match c {
        ' ' => Some('-'),
        _ => (c.is_alphanumeric() || c == '-' || c == '_').then_some(c),
    };
    headings.map(|heading| without_targets(heading).to_lowercase().chars().filter_map(kept).collect()).collect()
}

/// Returns a heading with the words of its links alone.
fn without_targets(heading: &str) -> String {
    let mut parts = heading.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once(')').map_or("", |(_, rest)| rest))
}

/// Returns the links of a page to this repository, with their lines.
fn links(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let targets = prose(text).flat_map(|(number, line)| {
        line.split("](").skip(1).filter_map(move |rest| Some((number, rest.split_once(')')?.0)))
    });
    targets.filter(|(_, target)| !target.contains([':', ' ']))
}

/// Returns the path of a target, which is relative to the folder of its page.
fn path_of(page: &str, target: &str) -> String {
    let mut parts: Vec<_> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns the links that lead nowhere. `exists` knows files that are no page.
fn broken(pages: &[TreeFile], exists: impl Fn(&str) -> bool) -> Vec<String> {
    let leads = |page: &TreeFile, target: &str| {
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let path = if path.is_empty() { page.path.clone() } else { path_of(&page.path, path) };
        match pages.iter().find(|other| other.path == path) {
            Some(other) => anchor.is_empty() || anchors(&other.text).contains(anchor),
            None => exists(&path),
        }
    };
    let of_page = |page: &TreeFile| -> Vec<String> {
        let wrong = links(&page.text).filter(|(_, target)| !leads(page, target));
        wrong.map(|(line, target)| format!("{}:{line}: {target}", page.path)).collect()
    };
    pages.iter().flat_map(of_page).collect()
}

#[test]
fn links_lead_to_files_and_headings() {
    let pages = files(|path| path.ends_with(".md"));
    let count: usize = pages.iter().map(|page| links(&page.text).count()).sum();
    assert!(count > 700, "only {count} links found");
    let broken = broken(&pages, |path| root().join(path).exists());
    assert!(broken.is_empty(), "{} links lead nowhere:\n{}", broken.len(), broken.join("\n"));
}

#[test]
fn link_to_a_missing_file_or_heading_is_found() {
    let page = |path: &str, text: &str| TreeFile { path: path.to_owned(), text: text.to_owned() };
    let pages = [
        page(
            "docs/a.md",
            "# `a` and [b](b.md): x\n[1](b/c.md#see-it) [2](#a-and-b-x) [3](#none) [4](../LICENSE)\n```\n[5](x)\n```\n",
        ),
        page("docs/b/c.md", "## See it\n[1](../a.md) [2](../b.md) [3](../a.md#b) [4](https://a.example/x)\n"),
    ];
    let found = broken(&pages, |path| path == "LICENSE");
    let expected = ["docs/a.md:1: b.md", "docs/a.md:2: #none", "docs/b/c.md:2: ../b.md", "docs/b/c.md:2: ../a.md#b"];
    assert_eq!(found, expected);
}
