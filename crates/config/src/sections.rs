//! Sections of files as JSON, for commands that send them to a server. Only the YAML is checked.

use std::{path::Path, sync::Arc};

use fairway_model::Diagnostic;
use serde_json::Value;

use super::{
    attempt::{config_files, missing_line_end, read_text, unreadable},
    context::LoadContext,
    join::join,
    tree::Node,
    yaml,
};

/// Returns the content of files, and of the `*.yaml` files of folders, as one JSON object, joined as files of a
/// configuration. Returns all errors together.
pub fn sections(of: &[impl AsRef<Path>]) -> Result<Value, Vec<Diagnostic>> {
    let mut context = LoadContext::new(&|_| None, None);
    let mut files = Vec::new();
    for path in of {
        match config_files(path.as_ref(), &mut context) {
            Ok(found) => files.extend(found),
            Err(why) => context.report(unreadable(path.as_ref(), &why)),
        }
    }
    let names: Vec<Arc<str>> = files.iter().map(|path| path.to_string_lossy().into()).collect();
    let mut trees: Vec<Node> = Vec::new();
    for ((path, name), file) in files.iter().zip(&names).zip(0..) {
        let Some(text) = read_text(path, name, &mut context) else { continue };
        context.report_all(missing_line_end(name, &text));
        match yaml::parse(&text, file, &names) {
            Ok(tree) => trees.extend(tree),
            Err(diagnostics) => context.report_all(diagnostics),
        }
    }
    let mut diagnostics = Vec::new();
    let joined = join(trees, &names, &mut diagnostics);
    context.report_all(diagnostics);
    if context.has_errors { Err(context.diagnostics) } else { Ok(joined.to_json()) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    #[test]
    fn files_and_folders_are_joined_by_section() {
        let folder = tempfile::tempdir().unwrap();
        let within = folder.path().join("more");
        fs::create_dir(&within).unwrap();
        let file = folder.path().join("one.json");
        fs::write(&file, r#"{"version": 1, "clusters": [{"name": "eu1"}]}"#).unwrap();
        fs::write(within.join("a.yaml"), "clusters:\n- name: us1\npools: [ { name: shop } ]\n").unwrap();
        let found = sections(&[file, within]).unwrap();
        let wanted = json!({"version": 1, "clusters": [{"name": "eu1"}, {"name": "us1"}], "pools": [{"name": "shop"}]});
        assert_eq!(found, wanted);
    }

    #[test]
    fn unreadable_file_is_reported_with_location() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("broken.yaml");
        fs::write(&file, "pools:\n- name: a\n  name: b\n").unwrap();
        let diagnostics = sections(&[file, folder.path().join("nowhere.yaml")]).unwrap_err();
        let messages: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
        assert!(messages.iter().any(|diagnostic| diagnostic.contains("broken.yaml:3")), "{messages:?}");
        assert!(messages.iter().any(|diagnostic| diagnostic.contains("nowhere.yaml")), "{messages:?}");
    }
}
