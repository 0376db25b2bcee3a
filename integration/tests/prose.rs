//! Checks every text that a person reads against the word list in `integration/prose/words.tsv`: comments, names, messages, manual, scripts.
//!
//! `exceptions.tsv` lists where a word is the right one, with the reason. `unconverted.tsv` lists the paths that still have to be
//! rewritten. Both may only get shorter: an entry that is no longer needed fails, too.

use std::{collections::BTreeMap, fs};

use fairway_integration::tree::{TreeFile, files, root};

/// Pseudo word in the exceptions for doc comments that begin with a question word.
const DOC_START: &str = "(doc start)";

/// Doc comments begin with a verb or a noun ("Returns…", "True if…"), not with these.
const DOC_STARTS: &[&str] = &["What ", "Who ", "How ", "Whether ", "Where ", "That which ", "Why ", "When "];

struct Word {
    is_error: bool,
    word: String,
    instead: String,
}

/// Entries of the list by their first word.
type WordIndex<'a> = BTreeMap<&'a str, Vec<&'a Word>>;

/// Allows a word, or every word (`*`), in a path; with `:|` after the path, in rows of tables only.
struct Exception {
    path: String,
    word: String,
}

impl Exception {
    fn allows(&self, finding: &Finding) -> bool {
        let is_in_path = match self.path.strip_suffix(":|") {
            Some(path) => finding.is_in_table && finding.path.starts_with(path),
            None => finding.path.starts_with(&self.path),
        };
        is_in_path && (self.word == finding.word || (self.word == "*" && finding.is_error))
    }
}

/// A word of the list in a file.
struct Finding {
    path: String,
    line: usize,
    /// True in a row of a table, a line that begins with `|`.
    is_in_table: bool,
    word: String,
    instead: String,
    is_error: bool,
}

/// Returns the rows of a list in `integration/prose`; lines that begin with `#` are remarks.
fn rows(name: &str, columns: usize) -> Vec<Vec<String>> {
    let path = root().join("integration/prose").join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let rows = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let rows: Vec<Vec<String>> = rows.map(|line| line.split('\t').map(str::to_owned).collect()).collect();
    for row in &rows {
        assert_eq!(row.len(), columns, "{name}: columns of {row:?}");
    }
    rows
}

fn words() -> Vec<Word> {
    let word = |row: Vec<String>| {
        let [kind, word, instead] = <[String; 3]>::try_from(row).expect("three columns");
        assert!(kind == "error" || kind == "warning", "words.tsv: {kind} is neither error nor warning");
        Word { is_error: kind == "error", word, instead }
    };
    rows("words.tsv", 3).into_iter().map(word).collect()
}

fn by_first_word(words: &[Word]) -> WordIndex<'_> {
    let mut index = WordIndex::new();
    for word in words {
        index.entry(word.word.split(' ').next().unwrap_or_default()).or_default().push(word);
    }
    index
}

fn exceptions() -> Vec<Exception> {
    let exception = |row: Vec<String>| {
        let [path, word, reason] = <[String; 3]>::try_from(row).expect("three columns");
        assert!(!reason.is_empty(), "exceptions.tsv: {path} gives no reason");
        Exception { path, word }
    };
    rows("exceptions.tsv", 3).into_iter().map(exception).collect()
}

/// True for texts that a person reads: sources, manual, scripts, configurations, recipes. False for inputs of fuzz targets.
fn is_read_by_people(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.') {
        Some((_, extension)) => {
            ["rs", "md", "sh", "py", "js", "html", "css", "yaml", "toml", "recipe", "service", "socket", "go", "proto"]
                .contains(&extension)
        }
        None => name != "LICENSE" && !path.starts_with("fuzz/corpus/"),
    }
}

/// Returns the words of a text in lower case, each with its line; names are cut at `_` and between `a` and `B`.
fn tokens(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let mut before = ' ';
        for sign in line.chars() {
            let inside = before.is_alphanumeric() && (before.is_uppercase() || !sign.is_uppercase());
            if sign.is_alphanumeric() && !inside {
                found.push((at + 1, String::new()));
            }
            if let Some((_, word)) = found.last_mut().filter(|_| sign.is_alphanumeric()) {
                word.extend(sign.to_lowercase());
            }
            before = sign;
        }
    }
    found
}

/// Returns the lines, numbered from 1, on which a doc comment or a module header begins with a question word.
fn doc_starts(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut inside = false;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        if !inside && doc.is_some_and(|doc| DOC_STARTS.iter().any(|start| doc.trim_start().starts_with(start))) {
            found.push(at + 1);
        }
        inside = doc.is_some();
    }
    found
}

/// Returns the words of the list in a text. A phrase may continue on the next line.
fn find(file: &TreeFile, words: &WordIndex<'_>) -> Vec<Finding> {
    let lines: Vec<_> = file.text.lines().collect();
    let finding = |line: usize, word: &str, instead: &str, is_error| Finding {
        path: file.path.clone(),
        line,
        is_in_table: lines[line - 1].starts_with('|'),
        word: word.to_owned(),
        instead: instead.to_owned(),
        is_error,
    };
    let tokens = tokens(&file.text);
    let mut found = Vec::new();
    for (at, (line, token)) in tokens.iter().enumerate() {
        // Most tokens begin no entry of the list.
        for word in words.get(token.as_str()).into_iter().flatten() {
            let mut sought = word.word.split(' ').zip(&tokens[at..]);
            if sought.all(|(wanted, (_, token))| wanted == token) && at + word.word.split(' ').count() <= tokens.len() {
                found.push(finding(*line, &word.word, &word.instead, word.is_error));
            }
        }
    }
    if file.path.ends_with(".rs") {
        let starts = doc_starts(&file.text).into_iter();
        found.extend(starts.map(|line| finding(line, DOC_START, "Returns…, True if…, or a noun phrase", true)));
    }
    found
}

/// Findings of the whole tree: those that no entry allows, and how many each entry allows.
struct Checked {
    open: Vec<Finding>,
    by_exception: BTreeMap<(String, String), usize>,
    by_unconverted: BTreeMap<String, usize>,
}

fn check() -> Checked {
    let (words, exceptions) = (words(), exceptions());
    let index = by_first_word(&words);
    let unconverted: Vec<String> = rows("unconverted.tsv", 1).into_iter().flatten().collect();
    let mut checked = Checked {
        open: Vec::new(),
        by_exception: exceptions.iter().map(|e| ((e.path.clone(), e.word.clone()), 0)).collect(),
        by_unconverted: unconverted.iter().map(|path| (path.clone(), 0)).collect(),
    };
    for finding in files(is_read_by_people).iter().flat_map(|file| find(file, &index)) {
        if let Some(exception) = exceptions.iter().find(|e| e.allows(&finding)) {
            *checked.by_exception.entry((exception.path.clone(), exception.word.clone())).or_default() += 1;
        } else if let Some(path) = unconverted.iter().find(|path| finding.is_error && finding.path.starts_with(*path)) {
            *checked.by_unconverted.entry(path.clone()).or_default() += 1;
        } else {
            checked.open.push(finding);
        }
    }
    checked
}

#[test]
fn words_of_the_list_stand_in_excepted_places_only() {
    let checked = check();
    let errors: Vec<_> = checked.open.iter().filter(|f| f.is_error).collect();
    let lines = errors.iter().map(|f| format!("{}:{}: {}; write: {}", f.path, f.line, f.word, f.instead));
    let lines: Vec<_> = lines.take(200).collect();
    assert!(errors.is_empty(), "{} words that are no plain English:\n{}", errors.len(), lines.join("\n"));
}

#[test]
fn every_exception_is_needed() {
    let checked = check();
    let unused: Vec<_> = checked.by_exception.iter().filter(|(_, count)| **count == 0).map(|(e, _)| e).collect();
    assert!(unused.is_empty(), "take these rows out of integration/prose/exceptions.tsv: {unused:#?}");
    let clean: Vec<_> = checked.by_unconverted.iter().filter(|(_, count)| **count == 0).map(|(p, _)| p).collect();
    assert!(clean.is_empty(), "clean or gone: take these rows out of integration/prose/unconverted.tsv: {clean:#?}");
}

/// Prints one line for `bench/tree`.
#[test]
fn counts() {
    let checked = check();
    let unconverted: usize = checked.by_unconverted.values().sum();
    let errors = checked.open.iter().filter(|f| f.is_error).count();
    let warnings = checked.open.len() - errors;
    println!("prose: {} ({unconverted} in paths not yet rewritten); {warnings} warnings", errors + unconverted);
    for (path, count) in checked.by_unconverted {
        println!("  {path}: {count}");
    }
}

#[test]
fn words_are_found_in_prose_names_and_over_line_ends() {
    let list = [("error", "foo"), ("error", "foo bar"), ("warning", "baz")];
    let list =
        list.map(|(kind, word)| Word { is_error: kind == "error", word: word.to_owned(), instead: String::new() });
    let found = |text: &str| -> Vec<(usize, String)> {
        let file = TreeFile { path: "a.md".to_owned(), text: text.to_owned() };
        find(&file, &by_first_word(&list)).into_iter().map(|f| (f.line, f.word)).collect()
    };
    let foo = |line| (line, "foo".to_owned());
    assert_eq!(found("Foo, and a food.\nno"), [foo(1)]);
    assert_eq!(found("fn is_foo(a: FooTable) {}"), [foo(1), foo(1)]);
    assert_eq!(found("// a foo\n// bar"), [foo(1), (1, "foo bar".to_owned())]);
    assert_eq!(found("foo foo"), [foo(1), foo(1)]);
}

#[test]
fn exception_for_tables_allows_rows_of_tables_only() {
    let words = [Word { is_error: true, word: "foo".to_owned(), instead: String::new() }];
    let exception = Exception { path: "a.md:|".to_owned(), word: "*".to_owned() };
    let allowed = |path: &str, text: &str| {
        let file = TreeFile { path: path.to_owned(), text: text.to_owned() };
        find(&file, &by_first_word(&words)).iter().map(|f| exception.allows(f)).collect::<Vec<_>>()
    };
    assert_eq!(allowed("a.md", "foo\n| foo | b |\n- foo"), [false, true, false]);
    assert_eq!(allowed("b.md", "| foo | b |"), [false]);
}

#[test]
fn doc_comments_with_question_words_are_found_at_their_first_line_only() {
    let text =
        "/// What it is.\nfn a() {}\n/// Returns it.\n/// What is more.\nfn b() {}\n    /// Whether so.\n    c: bool,";
    assert_eq!(doc_starts(text), [1, 6]);
}
