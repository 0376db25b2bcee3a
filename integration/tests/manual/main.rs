//! Runs the commands of the manual as a reader would, and compares what they print with the page.
//!
//! The `console` blocks of a page run in order in one shell. Lines after `$ ` are commands, the others their output; `…` stands for any
//! lines, or for any text in a line. A command that changes nothing is repeated until its output fits. A command that ends in ` &`, and one
//! after the comment `<!-- background -->`, runs on while the page continues; its output has to begin with the lines of the page. A block
//! after `<!-- file: NAME -->` is written to that file. Blocks that cannot run on any machine are marked `text`.
#![cfg(feature = "real")]

mod links;
mod page;
mod shell;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use fairway_integration::real::{root, used};

use self::{
    page::{Block, Command, blocks, fits},
    shell::Shell,
};

/// Longest time until a change is visible.
const LIMIT: Duration = Duration::from_secs(30);

/// Blocks whose commands another test runs: page, words of the block, test.
const ELSEWHERE: [(&str, &str, &str); 2] = [
    ("docs/deploy/container.md", "docker run ", "integration/tests/container.rs"),
    ("docs/start/external-dns.md", "$ external-dns ", "integration/tests/external_dns/manual.rs"),
];

/// Numbers of blocks.
#[derive(Debug, Default)]
struct Counts {
    run: usize,
    elsewhere: usize,
    text: usize,
}

/// Returns the Markdown files below a folder.
fn pages_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
    paths
        .flat_map(|path| if path.is_dir() { pages_below(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|of| of == "md"))
        .collect()
}

/// True if every block of the page says if it runs.
fn is_strict(name: &str) -> bool {
    ["README.md", "docs/tour.md", "docs/debug.md"].contains(&name)
        || name.starts_with("docs/start/")
        || name.starts_with("docs/deploy/")
}

fn is_elsewhere(name: &str, block: &Block) -> bool {
    ELSEWHERE.iter().any(|(page, words, _)| *page == name && block.text.contains(words))
}

#[test]
fn commands_of_the_manual_print_what_it_shows() {
    let mut pages = pages_below(&root().join("docs"));
    pages.push(root().join("README.md"));
    pages.sort();
    // For an author: `FAIRWAY_PAGE=docs/tour.md`.
    let only = std::env::var("FAIRWAY_PAGE").unwrap_or_default();
    let names = pages.iter().map(|path| path.strip_prefix(root()).expect("in the tree").to_str().expect("UTF-8"));
    let names: Vec<_> = names.filter(|name| name.contains(&only)).collect();
    // Two at once: each waits most of its time.
    let next = AtomicUsize::new(0);
    let work = || {
        let (mut counts, mut failures) = (Counts::default(), Vec::new());
        while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (started, shown) = (Instant::now(), fs::read_to_string(root().join(name)).expect("it can be read"));
            failures.extend(check(name, &blocks(&shown), &mut counts).err());
            if started.elapsed() > Duration::from_secs(1) {
                println!("{name}: {:?}", started.elapsed());
            }
        }
        (counts, failures)
    };
    let (first, second) = std::thread::scope(|scope| {
        let other = scope.spawn(work);
        (work(), other.join().expect("no page panics"))
    });
    let sum = |of: fn(&Counts) -> usize| of(&first.0) + of(&second.0);
    let run = sum(|counts| counts.run);
    println!("{run} run, {} run by other tests, {} text", sum(|counts| counts.elsewhere), sum(|counts| counts.text));
    let failures = [first.1, second.1].concat();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(run > 0 || !only.is_empty(), "the manual has no commands");
}

/// Runs the blocks of a page. Returns the first failure.
fn check(name: &str, blocks: &[Block], counts: &mut Counts) -> Result<(), String> {
    const KINDS: [&str; 5] = ["console", "text", "yaml", "json", "csv"];
    let odd = blocks.iter().find(|block| is_strict(name) && !KINDS.contains(&&*block.kind));
    if let Some(Block { line, kind, .. }) = odd {
        return Err(format!("{name}:{line}: a block of kind {kind:?}; mark it with one of {KINDS:?}"));
    }
    let mut shell = None;
    for block in blocks {
        match &*block.kind {
            _ if is_elsewhere(name, block) => counts.elsewhere += 1,
            "console" => {
                counts.run += 1;
                run(name, block, shell.get_or_insert_with(Shell::start))?;
            }
            "text" => counts.text += 1,
            _ => {}
        }
        if let Some(file) = block.comment.strip_prefix("file: ") {
            shell.get_or_insert_with(Shell::start).write(file, &block.text);
        }
    }
    Ok(())
}

fn run(name: &str, block: &Block, shell: &mut Shell) -> Result<(), String> {
    for command in block.commands() {
        if command.text.starts_with("dig ") {
            used("dig");
        }
        let background =
            command.text.strip_suffix(" &").or_else(|| (block.comment == "background").then_some(&*command.text));
        let outcome = match background {
            Some(text) => run_in_background(text, &command, shell),
            None => run_to_the_end(&command, shell),
        };
        outcome.map_err(|output| {
            let Command { line, text, expected } = &command;
            let logs = shell.run("tail -n 20 *.background 2>/dev/null").output;
            format!(
                "{name}:{line}: $ {text}\nexpected:\n{}\nprinted:\n{output}\nin the background:\n{logs}",
                expected.join("\n")
            )
        })?;
    }
    Ok(())
}

/// Starts a command; returns its output if that does not begin as expected in time.
fn run_in_background(text: &str, command: &Command, shell: &mut Shell) -> Result<(), String> {
    let log = format!("{}.background", command.line);
    shell.start_in_background(text, &log);
    let expected = [&command.expected[..], &["…".to_owned()]].concat();
    let end = Instant::now() + LIMIT;
    loop {
        let output = shell.run(&format!("cat {log}")).output;
        if fits(&expected, &output.lines().collect::<Vec<_>>()) {
            return Ok(());
        }
        if Instant::now() >= end {
            return Err(output);
        }
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

/// Runs a command; returns its output and status if they are not as expected, for one that only reads after [`LIMIT`]. A command whose output
/// the page does not show must succeed.
fn run_to_the_end(command: &Command, shell: &mut Shell) -> Result<(), String> {
    let end = Instant::now() + LIMIT;
    loop {
        let outcome = shell.run(&command.text);
        let is_valid = outcome.status == 0 || command.shows_output();
        if is_valid && fits(&command.expected, &outcome.output.lines().collect::<Vec<_>>()) {
            return Ok(());
        }
        if !command.only_reads() || Instant::now() >= end {
            return Err(format!("{}exit status {}", outcome.output, outcome.status));
        }
        std::thread::park_timeout(Duration::from_millis(100));
    }
}
