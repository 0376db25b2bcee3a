//! The committed corpora: small inputs that cover much of the code, one file each.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Returns the folder of a target's corpus.
pub fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

/// Returns every input of a target's corpus, in the order of file names. Packets are written as hexadecimal digits with blanks
/// and `#` comments, so that people can read them.
pub fn load(target: &str) -> io::Result<Vec<Vec<u8>>> {
    let mut paths: Vec<_> = fs::read_dir(folder(target))?.collect::<io::Result<Vec<_>>>()?;
    paths.sort_by_key(fs::DirEntry::file_name);
    let files = paths.iter().map(fs::DirEntry::path).filter(|p| p.is_file());
    let mut inputs = Vec::new();
    for path in files {
        let octets = fs::read(&path)?;
        if path.extension().is_some_and(|e| e == "hex") {
            inputs.extend(packets(&String::from_utf8_lossy(&octets), &path)?);
        } else {
            inputs.push(octets);
        }
    }
    Ok(inputs)
}

/// Parses packets, one per line.
fn packets(text: &str, path: &Path) -> io::Result<Vec<Vec<u8>>> {
    let fault = |line: usize| io::Error::other(format!("{}:{}: no hexadecimal digits", path.display(), line + 1));
    let lines = text.lines().map(|l| l.split('#').next().unwrap_or("")).enumerate();
    let filled = lines.filter(|(_, line)| !line.trim().is_empty());
    let read = |(number, line): (usize, &str)| {
        let digits: String = line.split_whitespace().collect();
        fairway_integration::present::unhex(&digits).ok_or_else(|| fault(number))
    };
    filled.map(read).collect()
}

/// Saves an input that broke a rule in `corpus/TARGET/new/`, which is not committed, so that the run can be repeated.
pub fn keep(target: &str, input: &[u8]) -> io::Result<PathBuf> {
    let folder = folder(target).join("new");
    fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{:016x}", fairway_model::fnv1a_64(input.iter().copied())));
    fs::write(&path, input)?;
    Ok(path)
}
