//! The files of the source tree, for tests that read them: layers, fences and prose.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A file of the tree.
pub struct TreeFile {
    /// Path relative to the workspace, with `/`.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// Returns the folder of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the workspace").to_owned()
}

/// Reads every file for which `wanted` is true, in the order of their paths. Skips build output and hidden folders except `.ci`.
pub fn files(wanted: impl Fn(&str) -> bool) -> Vec<TreeFile> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.expect("a readable entry").path();
            let relative = path.strip_prefix(&root).expect("found below the root").to_string_lossy().replace('\\', "/");
            let name = path.file_name().expect("an entry has a name").to_string_lossy().into_owned();
            if path.is_dir() {
                if name != "target" && (!name.starts_with('.') || name == ".ci") {
                    folders.push(path);
                }
            } else if wanted(&relative) {
                let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                found.push(TreeFile { path: relative, text });
            }
        }
    }
    assert!(found.len() > 10, "only {} files found below {}", found.len(), root.display());
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}
