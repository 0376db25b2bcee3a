//! The committed corpora: small inputs that reach far, one file each.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The folder of a target's corpus.
pub fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

/// Every input of a target's corpus, in the order of file names. Packets are written as hexadecimal digits with blanks
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

/// One packet a line.
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

/// Keeps an input that broke a rule, for repeating it: `corpus/TARGET/new/`, which is not committed.
pub fn keep(target: &str, input: &[u8]) -> io::Result<PathBuf> {
    let folder = folder(target).join("new");
    fs::create_dir_all(&folder)?;
    let hash = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3));
    let path = folder.join(format!("{hash:016x}"));
    fs::write(&path, input)?;
    Ok(path)
}
