//! A page of the manual: its fenced blocks, and the commands of a `console` block with the output that the page shows.

/// A fenced block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Number of its first line in the page, after the fence.
    pub(crate) line: usize,
    /// Word after the fence, such as `console`.
    pub(crate) kind: String,
    /// Content of the HTML comment in the line before the fence; empty without one.
    pub(crate) comment: String,
    pub(crate) text: String,
}

/// A command of a `console` block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Command {
    /// Number of its first line in the page.
    pub(crate) line: usize,
    /// Without the prompt.
    pub(crate) text: String,
    /// Lines of its output.
    pub(crate) expected: Vec<String>,
}

/// Returns the fenced blocks of a page, in order.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let (mut open, mut before): (Option<Block>, &str) = (None, "");
    for (number, line) in (1..).zip(page.lines()) {
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => block.text += &format!("{line}\n"),
            (None, Some(kind)) => {
                let comment = before.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
                let (kind, comment) = (kind.to_owned(), comment.unwrap_or_default().to_owned());
                open = Some(Block { line: number + 1, kind, comment, text: String::new() });
            }
            (None, None) => {}
        }
        before = line;
    }
    assert!(open.is_none(), "a block has no end: {open:?}");
    blocks
}

impl Block {
    /// Returns its commands. A command continues after `\` at the end of a line, to the end of a here-document, and to the `done` of a loop.
    pub(crate) fn commands(&self) -> Vec<Command> {
        let mut commands: Vec<Command> = Vec::new();
        let mut lines = (self.line..).zip(self.text.lines());
        while let Some((line, text)) = lines.next() {
            let Some(first) = text.strip_prefix("$ ") else {
                let last = commands.last_mut().unwrap_or_else(|| panic!("line {line}: output without a command"));
                last.expected.push(text.to_owned());
                continue;
            };
            let mut command = Command { line, text: first.to_owned(), expected: Vec::new() };
            while !command.is_whole() {
                let (_, next) = lines.next().unwrap_or_else(|| panic!("line {line}: the command has no end"));
                command.text += &format!("\n{next}");
            }
            commands.push(command);
        }
        commands
    }
}

impl Command {
    /// True if no further line belongs to it.
    fn is_whole(&self) -> bool {
        let last = self.text.lines().last().unwrap_or_default();
        let first = self.text.lines().next().unwrap_or_default();
        let end = first.split_once("<<").map(|(_, rest)| {
            let word = rest.split_whitespace().next().unwrap_or_default();
            word.trim_start_matches('-').trim_matches(['\'', '"', ';', ')'])
        });
        let has_end = end.is_none_or(|end| self.text.lines().skip(1).any(|line| line.trim() == end));
        let is_loop = first.starts_with("for ") || first.starts_with("while ") || first.starts_with("until ");
        let is_done = !is_loop || last.split([' ', ';']).any(|word| word == "done");
        has_end && is_done && !last.ends_with('\\')
    }

    /// True if it changes nothing, so that it can be repeated until a change that the page has made is visible.
    pub(crate) fn only_reads(&self) -> bool {
        const READERS: [&str; 6] = ["status", "explain", "get", "check", "events", "version"];
        let words: Vec<_> = self.text.split_whitespace().collect();
        let is_option = |word: Option<&&str>| word.is_none_or(|word| word.starts_with('-'));
        match words[..] {
            ["dig", ..] | ["kubectl", "get", ..] => true,
            ["curl", ref rest @ ..] => !rest.iter().any(|word| word.starts_with('-') && word.contains(['X', 'd', 'T'])),
            ["fairway", "contributions", ref rest @ ..] => is_option(rest.first()),
            ["fairway", _, "list" | "status", ..] => true,
            ["fairway", command, ..] => READERS.contains(&command),
            _ => false,
        }
    }

    /// True if the page shows what it prints, and not only that it prints something.
    pub(crate) fn shows_output(&self) -> bool {
        self.expected.iter().any(|line| line != ANY)
    }
}

/// Stands for any number of lines, or for any text within a line.
const ANY: &str = "…";

/// True if the output is as expected. Runs of spaces are equal: the width of a column depends on times and paths.
pub(crate) fn fits(expected: &[String], output: &[&str]) -> bool {
    match expected.split_first() {
        None => output.is_empty(),
        Some((line, rest)) if line == ANY => (0..=output.len()).any(|skipped| fits(rest, &output[skipped..])),
        Some((line, rest)) => output.split_first().is_some_and(|(first, others)| {
            let [line, first] = [line, *first].map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
            line_fits(&line, &first) && fits(rest, others)
        }),
    }
}

fn line_fits(expected: &str, line: &str) -> bool {
    let mut pieces = expected.split(ANY);
    let Some(mut rest) = line.strip_prefix(pieces.next().unwrap_or_default()) else { return false };
    let pieces: Vec<_> = pieces.collect();
    let Some((last, middle)) = pieces.split_last() else { return rest.is_empty() };
    for piece in middle {
        match rest.split_once(piece) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn blocks_have_kind_comment_and_line() {
        let page = "# A\n<!-- file: a.yaml -->\n```yaml\na: 1\n```\n\n```console\n$ a\n```\n";
        let blocks = blocks(page);
        let found: Vec<_> =
            blocks.iter().map(|of| (of.line, of.kind.as_str(), of.comment.as_str(), of.text.as_str())).collect();
        assert_eq!(found, [(4, "yaml", "file: a.yaml", "a: 1\n"), (8, "console", "", "$ a\n")]);
    }

    #[test]
    fn commands_continue_to_their_end() {
        let text = "$ cat > a <<'END'\n$ no command\nEND\n$ a \\\n    b\nout\n\nput\n$ for i in 1 2; do\n  c\ndone\n$ d; done <<E\nE\n";
        let block = Block { line: 10, kind: "console".to_owned(), comment: String::new(), text: text.to_owned() };
        let commands = block.commands();
        let found: Vec<_> = commands.iter().map(|of| (of.line, of.text.as_str(), of.expected.join("|"))).collect();
        let expected = [
            (10, "cat > a <<'END'\n$ no command\nEND", ""),
            (13, "a \\\n    b", "out||put"),
            (18, "for i in 1 2; do\n  c\ndone", ""),
            (21, "d; done <<E\nE", ""),
        ];
        assert_eq!(found, expected.map(|(line, text, output)| (line, text, output.to_owned())));
    }

    #[test]
    fn commands_that_write_are_never_repeated() {
        let is_read = |text: &str| Command { line: 1, text: text.to_owned(), expected: Vec::new() }.only_reads();
        for text in
            ["dig a", "curl -s http://a/", "fairway status --json", "fairway contributions", "fairway override list"]
        {
            assert!(is_read(text), "{text}");
        }
        for text in ["curl -sX POST http://a/", "fairway contributions evict a", "fairway override add a drain", "rm a"]
        {
            assert!(!is_read(text), "{text}");
        }
    }

    #[test]
    fn output_fits_with_any_lines_and_any_text() {
        let expected = texts(&["a  1 …, c", "…", "end"]);
        assert!(fits(&expected, &["a 1 b, b, c", "end"]));
        assert!(fits(&expected, &["a    1 , c", "x", "end", "y", "end"]));
        for wrong in [&["a 1 b, c"][..], &["a 1 b, d", "end"], &["a 1 b, c", "end", "x"], &["x", "a 1 b, c", "end"]] {
            assert!(!fits(&expected, wrong), "{wrong:?}");
        }
        assert!(!fits(&[], &["x"]) && fits(&[], &[]) && !fits(&texts(&["x"]), &[]));
    }
}
