//! Sections of files that a command sends to a server, with the locations of the server's errors in them.

use std::{io::Read, path::Path, slice, sync::Arc};

use fairway_model::{Diagnostic, FileLocation};
use serde_json::Value;

use super::{
    attempt::{decoded, join_yaml, read_texts},
    context::LoadContext,
    files::CONFIG_MAX,
    tree::Node,
    yaml::Documents,
};

/// Sections of files, joined as those of a configuration.
#[derive(Debug)]
pub struct Sections {
    tree: Node,
    names: Vec<Arc<str>>,
}

impl Sections {
    /// Reads files, the `*.yaml` files of folders, and standard input for `-`. A file may have several documents. Only the YAML is checked.
    pub fn read(of: &[impl AsRef<Path>]) -> Result<Self, Vec<Diagnostic>> {
        let mut context = LoadContext::new(&|_| None, None);
        let (mut names, mut texts) = (Vec::new(), Vec::new());
        for path in of {
            let (more_names, more_texts) = match path.as_ref() {
                path if path == Path::new("-") => (vec![Arc::from("stdin")], vec![standard_input(&mut context)]),
                path => read_texts(slice::from_ref(&path), &mut context),
            };
            names.extend(more_names);
            texts.extend(more_texts);
        }
        let tree = join_yaml(&texts, &names, Documents::Many, &mut context).filter(|_| !context.has_errors);
        tree.map(|tree| Self { tree, names }).ok_or(context.diagnostics)
    }

    /// Returns the sections as one JSON object.
    pub fn to_json(&self) -> Value {
        self.tree.to_json()
    }

    /// Returns an error at a JSON pointer into the sections, as if it had been found while they were read.
    pub fn error(&self, pointer: &str, detail: &str) -> Diagnostic {
        let found = self.tree.locate(pointer);
        // An unknown key is wrong itself; otherwise the value is.
        let position = if detail.starts_with("unknown key") { found.key } else { found.position };
        let fact = if found.path.is_empty() { detail.to_owned() } else { format!("{}: {detail}", found.path) };
        Diagnostic::error(position.location(&self.names), fact, "")
    }
}

/// Returns the text of standard input, or `None` after reporting why it cannot be used.
fn standard_input(context: &mut LoadContext<'_>) -> Option<String> {
    let name = Arc::from("stdin");
    let mut bytes = Vec::new();
    let read = std::io::stdin().take(CONFIG_MAX + 1).read_to_end(&mut bytes);
    let why = match read {
        Ok(_) if bytes.len() as u64 <= CONFIG_MAX => return decoded(bytes, &name, context),
        Ok(_) => format!("the input is larger than {CONFIG_MAX} bytes"),
        Err(error) => format!("the input cannot be read: {error}"),
    };
    context.report(Diagnostic::error(FileLocation::file(&name), why, ""));
    None
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn errors_of_the_server_get_the_location_of_their_pointer() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = ["a.yaml", "b.yaml"].map(|name| folder.path().join(name));
        fs::write(
            &first,
            "pools: [ { name: a } ]\n---\npools:\n  - { name: b, members: [ { edge: eu1, wieght: 7 } ] }\n",
        )
        .unwrap();
        fs::write(&second, "intents: [ { key: x } ]\npools:\n  - name: c\n    ttl: 5\n").unwrap();
        let sections = Sections::read(&[&first, &second]).unwrap();
        let pools = sections.to_json()["pools"].clone();
        assert_eq!(pools[1]["members"][0]["cluster"], "eu1", "an alias is the canonical key");
        assert_eq!(pools[2]["name"], "c");
        for (pointer, detail, expected) in [
            (
                "/pools/1/members/0/wieght",
                "unknown key; did you mean weight?",
                "a.yaml:4:40: pools[0].members[0].wieght: unknown key",
            ),
            (
                "/pools/1/members/0/cluster",
                "no such cluster",
                "a.yaml:4:35: pools[0].members[0].cluster: no such cluster",
            ),
            ("/pools/2/ttl", "give a unit", "b.yaml:4:10: pools[0].ttl: give a unit"),
            ("/pools/2/policy", "is missing", "b.yaml:3:5: pools[0].policy: is missing"),
            ("", "too many", "a.yaml:1:1: too many"),
        ] {
            let text = sections.error(pointer, detail).to_string();
            assert!(text.contains(expected), "{pointer}: {text}");
        }
    }

    #[test]
    fn error_in_any_document_rejects_all() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        fs::write(&file, "pools: []\n---\npools: {}\n---\n- a\n").unwrap();
        let errors = Sections::read(&[&file]).unwrap_err();
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert!(
            texts[0].contains("a.yaml:3:1: pools is already in")
                && texts[1].contains("a.yaml:5:1: the file is not a map"),
            "{texts:?}"
        );
    }
}
